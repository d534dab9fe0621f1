# SPDX-License-Identifier: Apache-2.0
"""A session's log-probabilities as torch tensors: any loss that torch can differentiate trains the adapter.

logps = mebp.torch.logprobs(session, ids, mask)     # [batch, sequence - 1], with a gradient
loss_of_yours(logps).backward()                     # adds to the session's gradient
session.apply()                                     # the update
"""

import numpy as np
import torch

from mebp import arrays
from mebp.numbers import checked
from mebp.sequences import scored_labels
from mebp.session import Session


class _LogProbabilities(torch.autograd.Function):
    """One row at a time, so that a step has the memory of one sequence. A backward needs its forward again, but for the
    row that was scored last, which is still there."""

    @staticmethod
    def forward(context, anchor, session, ids, mask, temperature):
        rows = [(ids[row : row + 1], None if mask is None else mask[row : row + 1]) for row in range(len(ids))]
        context.session, context.rows, context.temperature = session, rows, temperature
        found = [session.logprobs(*row, temperature=temperature) for row in rows[:-1]]
        context.last = session.sequence(*rows[-1], temperature=temperature)
        return torch.from_numpy(np.concatenate([*found, context.last.logprobs]))

    @staticmethod
    def backward(context, gradient):
        coefficients = gradient.detach().float().cpu().numpy()
        session, rows = context.session, context.rows
        if context.last.is_open:
            context.last.backward(coefficients[-1:])
            rows = rows[:-1]
        for row, wanted in zip(rows, coefficients, strict=False):
            if wanted.any():
                session.sequence(*row, temperature=context.temperature).backward(wanted[None])
        return None, None, None, None, None


@checked
def logprobs(session: Session, input_ids: object, mask: object = None, temperature: float = 1.0) -> torch.Tensor:
    """float32 [batch, sequence - 1]: as Session.logprobs. Its backward is Session.sequence(...).backward.

    input_ids, mask: tensors or arrays [batch, sequence], as many rows as there are: they are computed one by one. Each
    is to be differentiated once. The session was created with accumulate=True.
    """
    ids = arrays.token_array("input_ids", _numpy(input_ids))
    counted = None if mask is None else np.asarray(_numpy(mask))
    if counted is not None:
        scored_labels(ids, counted)  # refuses another shape, which rows of it would not show
    if not torch.is_grad_enabled():
        rows = [session.logprobs(ids[row : row + 1], None if counted is None else counted[row : row + 1],
                                 temperature=temperature) for row in range(len(ids))]  # fmt: skip
        return torch.from_numpy(np.concatenate(rows))
    anchor = torch.zeros((), requires_grad=True)  # what torch differentiates by; the adapter is not torch's
    return _LogProbabilities.apply(anchor, session, ids, counted, temperature)


def _numpy(values: object) -> object:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values
