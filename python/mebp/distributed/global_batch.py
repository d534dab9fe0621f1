# SPDX-License-Identifier: Apache-2.0
"""The micro-batches of a step, and this process's part of them."""

import hashlib
import platform
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from mebp.adapters.origin import bundle_digest
from mebp.arrays import IGNORED_LABEL
from mebp.compile_options import flag
from mebp.distributed.choices import NO_SHARD, TREE, WEIGHTS
from mebp.distributed.group import Group, Made
from mebp.distributed.numbering import number_by_size
from mebp.distributed.owned_sums import OwnedSums
from mebp.distributed.placement import place
from mebp.distributed.restarts import leave_mark
from mebp.distributed.roles import OF_ONE
from mebp.distributed.states import begin_in_parts, gathered_states, share_state
from mebp.distributed.sums import GradientSums
from mebp.distributed.weights import ShardedWeights
from mebp.errors import Error
from mebp.session import Session
from mebp.step_result import StepResult
from mebp.version import __version__
from mebp.words import say

_COMPARED_EVERY = 50  # steps

Batches = tuple[Sequence[np.ndarray], Sequence[np.ndarray], Sequence[np.ndarray] | None]


class GlobalBatch:
    """`count`: micro-batches of each step, over all processes of `group`; without one there is this process alone.
    `shard`: what each of them has a part of; `reduce`: how they sum; as the options of these names have it."""

    def __init__(self, count: int, group: Group | None = None, shard: str = NO_SHARD, reduce: str = TREE,
                 bundle: Path | None = None) -> None:  # fmt: skip
        self.count, self._group = count, group
        self.imbalance = 1.0  # of the last step
        self.is_sharded = group is not None and shard != NO_SHARD
        self._is_tree = reduce == TREE
        if self.is_sharded:
            shard = place(group, shard, bundle)
        self._weights = ShardedWeights.of_bundle(group, bundle) if self.is_sharded and shard == WEIGHTS else None
        if group is None:
            self._sums = None
        else:
            self._sums = OwnedSums(group) if self.is_sharded else GradientSums(group, self._is_tree)
        self._compares = True  # whether all apply the same sums with the same bits

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

    def session_options(self, takes_losses: bool = False) -> dict[str, object]:
        """takes_losses: of an optimizer that takes them instead of gradients, which a tree would be of."""
        return (
            {"accumulate": True, "tree_batches": len(self.own) if self._is_tree and not takes_losses else 0}
            | ({"taker": self._sums} if self._sums else {})
            | ({"weights": self._weights} if self._weights else {})
        )

    def bytes_beside(self, session: Session) -> int:
        """What this process has for sums over all and for weights of others, beside what the session plans."""
        weights = self._weights.bytes_beside if self._weights else 0
        return weights + (self._sums.bytes_beside(session) if self._sums else 0)

    def leave(self) -> None:
        """At the end of a run that has not failed, in all processes."""
        if self._weights:
            self._weights.close()

    def check_alike(self, session: Session, options: object, data: str) -> None:
        """Raises mebp.Error where another process has another bundle, other data or options."""
        if self._group is None:
            return
        own = {flag(each.name): str(getattr(options, each.name)) for each in fields(options)
               if each.name not in OF_ONE}  # fmt: skip
        self._group.check_alike(
            {"mebp": __version__, "the bundle": bundle_digest(session.path), "the data": data, **own}
        )

    def begin_alike(self, session: Session, resumed_from: Path | None) -> None:
        """Puts every process where the first is, which has loaded its state from that folder, or an adapter; says where
        one has other kernels."""
        if self._group is None:
            return
        if self.is_sharded:
            begin_in_parts(self._group, session, resumed_from)
        else:
            share_state(self._group, session)
        kernels = [str(each) for each in self._group.gather_json(session.kernels)]
        other = next((rank for rank, its in enumerate(kernels) if its != kernels[0]), None)
        if other is not None and self.is_first:
            say(f"note: rank {other} runs {kernels[other]} kernels, and rank 0 {kernels[0]} ones, which round "
                "differently: another number of processes gives other bits", error=True)  # fmt: skip
        # Optimizers are the same code on a type of machine, whatever its kernels.
        self._compares = len({str(each) for each in self._group.gather_json(platform.machine())}) == 1

    def state_parts(self, session: Session, saves: bool) -> AbstractContextManager[list[Path]]:
        """While rank 0 saves a state, if it `saves` one: those of the others, where each has a part. All come here at
        the same step."""
        if not self.is_sharded or not self._group.gather([saves])[0, 0]:
            return nullcontext([])
        return gathered_states(self._group, session)

    def ends(self, asked: bool) -> bool:
        """Whether the run ends before the next step, because it does so, or is asked to, in any process."""
        return asked if self._group is None else bool(self._group.gather([asked]).any())

    def stopped_by(self, own: int | None, state: Path | None) -> int | None:
        """The signal that has stopped the run, once all is saved: `own`, or SIGINT for that of any process. Then no
        restart goes on with it."""
        if self._group is None or not self.ends(own is not None):
            return own
        if self.is_first:
            leave_mark(self._group, state)
        self.ends(True)  # together: with the first that has, torchrun would end the others
        return signal.SIGINT

    def step(self, session: Session, batches: Batches) -> StepResult:
        """A step of the session over up to `count` micro-batches: ids and labels, int32 [batch, sequence] each, and
        starts where samples are packed. An epoch's last step may have fewer."""
        ids, labels, starts = (None if each is None else list(each) for each in batches)
        while len(ids) < self.count:  # which add nothing to any sum
            ids.append(np.zeros((1, 2), np.int32))
            labels.append(np.full((1, 2), IGNORED_LABEL, np.int32))
            if starts is not None:
                starts.append(np.zeros((1, 2), np.int32))
        order, own = self.deal([each.size for each in ids])
        arrays = [[each[index] for index in own] if each else [] for each in (ids, labels, starts)]
        first_row = sum(len(ids[index]) for index in order[: self.own.start])
        counted = session.native.count_labels(*arrays)
        if self._group is None:
            return StepResult(*session.native.step_part(*arrays, counted, self.count, first_row))
        counted = int(self._group.gather([counted]).sum())
        with self._summing(session):
            result = StepResult(*session.native.step_part(*arrays, counted, self.count, first_row))
        loss = float(self._group.gather_numbers([result.loss]).sum())
        return replace(result, loss=loss, tokens=counted)

    def deal(self, sizes: Sequence[int]) -> tuple[list[int], list[int]]:
        """Indices of the step's micro-batches in the order of their numbers, of sizes of each; and this process's."""
        order = number_by_size(sizes)
        if self._group:
            self.imbalance = self._imbalance([sizes[index] for index in order])
        return order, [order[number] for number in self.own]

    def begin_batch(self, session: Session, number: int) -> None:
        """What sequences add from here on is of this process's micro-batch of that number, from 0 on."""
        if self._is_tree:
            session.native.begin_batch(number, len(self.own))

    def apply(self, session: Session) -> StepResult:
        """The update of a step over sequences, by the sums of all processes. Loss and tokens are 0."""
        with self._summing(session):
            return session.apply()

    def of_first(self, value: object) -> object:
        """What the first process gives, which is as JSON has it."""
        return self._group.gather_json(value)[0] if self._group else value

    def in_turn(self, make: Callable[[], Made]) -> Made:
        return self._group.in_turn(make) if self._group else make()

    def arrays_of_all(self, own: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """float64 arrays of one dimension, of which each process has some by their indices; all of them in order."""
        if self._group is None:
            return [own[index] for index in sorted(own)]
        sent = [np.concatenate([[index, len(values)], values]) for index, values in own.items()]
        found = {}
        for received in self._group.gather_arrays(np.concatenate([[], *sent])):
            while len(received):
                index, length = (int(each) for each in received[:2]) if len(received) > 1 else (0, -1)
                if not 0 <= length <= len(received) - 2:
                    raise Error("another process of the group sends no whole arrays; start all from the same mebp")
                found[index], received = received[2 : 2 + length], received[2 + length :]
        return [found[index] for index in sorted(found)]

    @contextmanager
    def _summing(self, session: Session) -> Iterator[None]:
        if self._group is None:
            yield
            return
        if self._compares and (session.steps + 1) % _COMPARED_EVERY == 0:
            self._compare(session)
        try:
            with self._sums.during(session):
                yield
        except Error:
            if self._weights and self._weights.failure:
                raise self._weights.failure from None
            raise

    def _imbalance(self, sizes: Sequence[int]) -> float:
        """What the process with the most has to compute, over their mean."""
        parts = [sum(sizes[number] for number in self._numbers_of(rank)) for rank in range(self._group.size)]
        return max(parts) * len(parts) / sum(parts)

    def _compare(self, session: Session) -> None:
        """All have applied the same sums, so that adapters differ where a machine computes wrongly."""
        digest = hashlib.sha256()
        for index in range(len(self._sums.sizes(session))):
            digest.update(session.native.read_trainable(index))
        found = self._group.gather([int.from_bytes(digest.digest()[:7], "little")])[:, 0]
        for rank, other in enumerate(found):
            if other != found[0]:
                raise Error(f"rank {rank} has another adapter than rank 0; see whether their machines are sound, and "
                            "go on from the last state")  # fmt: skip
