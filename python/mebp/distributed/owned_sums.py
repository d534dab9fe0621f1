# SPDX-License-Identifier: Apache-2.0
"""Gradients that are summed where they are applied, by the process that owns them (--shard optimizer)."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from mebp.distributed.shards import Shards
from mebp.distributed.sums import GradientSums
from mebp.session import Session


class OwnedSums(GradientSums):
    """`taker` of a session that owns a part."""

    _shards: Shards | None = None

    @property
    def part(self) -> tuple[int, int]:
        return self._group.rank, self._group.size

    def bytes_beside(self, session: Session) -> int:
        of_products = super().bytes_beside(session) if self._projects(session) else 0
        return of_products + Shards.bytes_of(self.sizes(session), self._group.size)

    def norm(self, squares: np.ndarray, total: float) -> float | None:
        with self._noting():
            total = self._shards.norm(squares)
        return super().norm(squares, total)

    @contextmanager
    def during(self, session: Session) -> Iterator[None]:
        """A step, after which all have what each has updated."""
        with super().during(session):
            yield
        self._shards.share_values()

    def _prepare(self, session: Session) -> None:
        if self._projects(session):  # subspaces are found from sums that all have
            super()._prepare(session)
        if self._shards is None:
            self._shards = Shards(self._group, session, self.sizes(session))

    def _projects(self, session: Session) -> bool:
        return any(rank for _, rank in self._read(session))

    def _run(self, session: Session) -> None:
        gradients: dict[int, np.ndarray] = {}
        for each in self._shards.slices():
            of_slice = {piece.index for pieces in each.of for piece in pieces} | set(each.ended)
            for index in sorted(of_slice - gradients.keys(), reverse=True):
                gradient = self._next(index)
                if gradient is None:
                    return
                gradients[index] = gradient
            if not self._failure:
                with self._noting():
                    self._shards.sum_to_owners(each, gradients)
            for index in each.ended:
                del gradients[index]
                session.native.give_gradient(index)
