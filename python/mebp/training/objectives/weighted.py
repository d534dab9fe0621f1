# SPDX-License-Identifier: Apache-2.0
"""Text whose tokens have weights: the mean of -log p, of which each token counts by its own (--turn-weights).

A step runs its batches as sequences, whose coefficients are weights over the sum of all in the step. So a weight of 2
is as good as a token that is there twice, and with weights of 1 the loss is what it is without. Every process knows the
weights of all batches, so that their sum is the same number in each, whoever runs a batch.
"""

import time
from collections.abc import Sequence

import numpy as np

from mebp.distributed.sequence_steps import SequenceSteps
from mebp.session import Session
from mebp.step_result import StepResult


def weighted_step(
    session: Session, steps: SequenceSteps, ids: Sequence[np.ndarray], weights: Sequence[np.ndarray]
) -> tuple[StepResult, np.ndarray, np.ndarray]:
    """What an update did; and of each row the sum of -log p, weighed, and that of the weights.

    ids: int32 [rows, length] of each batch of the step; weights: float32, likewise. Of each row, nothing predicts the
    first token.
    """
    begun = time.perf_counter()
    counted = [each[:, 1:].astype(np.float64) for each in weights]
    total = sum(float(each.sum()) for each in counted)
    sums = {}
    for part in steps.batches(session, steps.parts([each.size for each in ids])):
        for index in part:
            sequence = session.sequence(ids[index], np.pad(counted[index] > 0, ((0, 0), (1, 0))))
            sums[index] = -(counted[index] * sequence.logprobs).sum(axis=1)
            sequence.backward(-counted[index] / total)
    result = steps.apply(session)
    of_rows = np.concatenate(steps.of_all(sums))
    tokens = sum(int(np.count_nonzero(each)) for each in counted)
    done = result.of(float(of_rows.sum()) / total, tokens, time.perf_counter() - begun)
    return done, of_rows, np.concatenate([each.sum(axis=1) for each in counted])
