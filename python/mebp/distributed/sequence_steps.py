# SPDX-License-Identifier: Apache-2.0
"""A step over sequences (of pairs, or of prompts' completions), which one process makes, or several share."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from mebp.distributed.global_batch import GlobalBatch
from mebp.distributed.group import Made
from mebp.session import Session
from mebp.step_result import StepResult


class SequenceSteps:
    """`shared`: what --global-batch asks for; None: gradients are summed one after the other."""

    def __init__(self, shared: GlobalBatch | None) -> None:
        self._shared = shared

    def parts(self, sizes: Sequence[int], each: int = 1) -> list[list[int]]:
        """Of the step's units, of these sizes, the indices in each of this process's micro-batches.

        each: units of a micro-batch. An epoch's last step may leave some empty. Without --global-batch all are one.
        """
        units = list(range(len(sizes)))
        if self._shared is None:
            return [units]
        batches = [units[number * each : (number + 1) * each] for number in range(self._shared.count)]
        return [batches[index] for index in self._shared.deal([sum(sizes[unit] for unit in of) for of in batches])[1]]

    def batches(self, session: Session, parts: Sequence[Sequence[int]]) -> Iterator[Sequence[int]]:
        """`parts` one after the other, of which each sums what is added to the step while it is the last one given."""
        for number, part in enumerate(parts):
            if self._shared:
                self._shared.begin_batch(session, number)
            yield part

    def apply(self, session: Session) -> StepResult:
        return self._shared.apply(session) if self._shared else session.apply()

    def in_turn(self, make: Callable[[], Made]) -> Made:
        """What `make` returns, which writes what processes of a machine share: its first one calls it first."""
        return self._shared.in_turn(make) if self._shared else make()

    def of_all(self, own: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """float64 arrays of the step's units, each of one dimension, in order; `own` has this process's by index."""
        return self._shared.arrays_of_all(own) if self._shared else [own[index] for index in sorted(own)]
