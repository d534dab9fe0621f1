# SPDX-License-Identifier: Apache-2.0
"""The micro-batches of a step, and this process's part of them."""

import hashlib
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from mebp.adapters.origin import bundle_digest
from mebp.arrays import IGNORED_LABEL
from mebp.compile_options import flag
from mebp.distributed.group import Group
from mebp.distributed.numbering import number_by_size
from mebp.distributed.roles import OF_ONE
from mebp.distributed.states import share_state
from mebp.distributed.sums import GradientSums
from mebp.errors import Error
from mebp.session import Session
from mebp.step_result import StepResult
from mebp.version import __version__

_COMPARED_EVERY = 50  # steps

Batches = tuple[Sequence[np.ndarray], Sequence[np.ndarray], Sequence[np.ndarray] | None]


class GlobalBatch:
    """`count`: micro-batches of each step, over all processes of `group`; without one there is this process alone."""

    def __init__(self, count: int, group: Group | None = None) -> None:
        self.count, self._group = count, group
        self.imbalance = 1.0  # of the last step
        self._sums = GradientSums(group) if group else None

    @property
    def own(self) -> range:
        """The numbers of this process's micro-batches."""
        return self._numbers_of(self._group.rank) if self._group else range(self.count)

    def _numbers_of(self, rank: int) -> range:
        size = self._group.size
        return range(rank * self.count // size, (rank + 1) * self.count // size)

    @property
    def is_first(self) -> bool:
        """Whether this process measures and writes."""
        return self._group is None or self._group.is_first

    def session_options(self) -> dict[str, object]:
        return {"accumulate": True, "tree_batches": len(self.own), "taker": self._sums}

    def check_alike(self, session: Session, options: object, data: str) -> None:
        """Raises mebp.Error where another process has another bundle, other data or options."""
        if self._group is None:
            return
        own = {flag(each.name): str(getattr(options, each.name)) for each in fields(options)
               if each.name not in OF_ONE}  # fmt: skip
        self._group.check_alike(
            {"mebp": __version__, "the bundle": bundle_digest(session.path), "the data": data, **own,
             "kernels": session.kernels}
        )  # fmt: skip

    def begin_alike(self, session: Session) -> None:
        if self._group:
            share_state(self._group, session)

    def ends(self, asked: bool) -> bool:
        """Whether the run ends before the next step, because it does so, or is asked to, in any process."""
        return asked if self._group is None else bool(self._group.gather([asked]).any())

    def step(self, session: Session, batches: Batches) -> StepResult:
        """A step of the session over up to `count` micro-batches: ids and labels, int32 [batch, sequence] each, and
        starts where samples are packed. An epoch's last step may have fewer."""
        ids, labels, starts = (None if each is None else list(each) for each in batches)
        while len(ids) < self.count:  # which add nothing to any sum
            ids.append(np.zeros((1, 2), np.int32))
            labels.append(np.full((1, 2), IGNORED_LABEL, np.int32))
            if starts is not None:
                starts.append(np.zeros((1, 2), np.int32))
        sizes = [each.size for each in ids]
        order = number_by_size(sizes)
        own = [order[number] for number in self.own]
        arrays = [[each[index] for index in own] if each else [] for each in (ids, labels, starts)]
        first_row = sum(len(ids[index]) for index in order[: self.own.start])
        counted = session.native.count_labels(*arrays)
        if self._group is None:
            return StepResult(*session.native.step_part(*arrays, counted, self.count, first_row))
        counted = int(self._group.gather([counted]).sum())
        self.imbalance = self._imbalance([sizes[index] for index in order])
        if (session.steps + 1) % _COMPARED_EVERY == 0:
            self._compare(session)
        with self._sums.during(session):
            result = StepResult(*session.native.step_part(*arrays, counted, self.count, first_row))
        loss = float(self._group.gather_numbers([result.loss]).sum())
        return replace(result, loss=loss, tokens=counted)

    def _imbalance(self, sizes: Sequence[int]) -> float:
        """What the process with the most has to compute, over their mean."""
        parts = [sum(sizes[number] for number in self._numbers_of(rank)) for rank in range(self._group.size)]
        return max(parts) * len(parts) / sum(parts)

    def _compare(self, session: Session) -> None:
        """All have applied the same sums, so that adapters differ where a machine computes wrongly."""
        digest = hashlib.sha256()
        for values in session.trainables().values():
            digest.update(values.tobytes())
        found = self._group.gather([int.from_bytes(digest.digest()[:7], "little")])[:, 0]
        for rank, other in enumerate(found):
            if other != found[0]:
                raise Error(f"rank {rank} has another adapter than rank 0; see whether their machines are sound, and "
                            "go on from the last state")  # fmt: skip
