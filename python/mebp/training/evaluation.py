# SPDX-License-Identifier: Apache-2.0
"""The loss over a whole data set."""

import math
from collections.abc import Callable

import numpy as np

from mebp.data import Dataset
from mebp.session import Session


def evaluate(session: Session, data: Dataset, stop: Callable[[], bool] = lambda: False) -> float | None:
    """The mean loss over all labels that count, each once, or by its weight, however long its row is; changes nothing
    in the session.

    None where `stop()` became true before all was seen.
    """
    size = session.max_batch
    losses, total = [], 0.0
    for start in range(0, len(data.rows), size):
        if stop():
            return None
        indices = range(start, min(start + size, len(data.rows)))
        if data.weighted:
            own = data.weights_of(indices)
            logprobs = session.logprobs(data.padded(indices)[0], own > 0)
            weight = float(own[:, 1:].sum(dtype=np.float64))
            losses.append(-float((own[:, 1:] * logprobs).sum(dtype=np.float64)))
        else:
            weight = sum(data.rows[index].counted for index in indices)
            losses.append(session.loss(*data.padded(indices)) * weight)
        total += weight
    return math.fsum(losses) / total


def perplexity(loss: float) -> float:
    """exp(loss); infinite where that is no float."""
    return math.exp(loss) if loss < 700 else math.inf
