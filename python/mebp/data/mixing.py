# SPDX-License-Identifier: Apache-2.0
"""Which rows an epoch takes of several files of which each has a share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class Mix:
    """Rows of several sources, numbered through, and how many of each an epoch takes.

    A source that gives fewer rows than it has goes on with the next ones in the next epoch, in an order of its own, so
    that all its rows come equally often; so it is where it gives more than it has.
    """

    names: Sequence[str]
    rows: Sequence[int]  # of each source
    taken: Sequence[int]  # by an epoch

    @property
    def total(self) -> int:
        return sum(self.taken)

    def sources(self, rows: np.ndarray) -> np.ndarray:
        """Of which source each of these rows is."""
        return np.searchsorted(np.cumsum(self.rows), rows, side="right")

    def epoch(self, number: int, seed: int) -> np.ndarray:
        """The rows of an epoch in their order."""
        first = np.cumsum([0, *self.rows[:-1]])
        parts = [begin + self._of_source(source, number, seed) for source, begin in enumerate(first)]
        return np.random.default_rng([seed, number]).permutation(np.concatenate(parts))

    def _of_source(self, source: int, epoch: int, seed: int) -> np.ndarray:
        rows, taken = self.rows[source], self.taken[source]
        if rows == taken:
            return np.arange(rows)
        begin, parts, wanted = epoch * taken, [], taken
        while wanted:
            whole, position = divmod(begin, rows)
            order = np.random.default_rng([seed, whole, source, rows]).permutation(rows)
            parts.append(order[position : position + wanted])
            begin, wanted = begin + len(parts[-1]), wanted - len(parts[-1])
        return np.concatenate(parts)


def choose_taken(rows: Sequence[int], shares: Sequence[float | None]) -> list[int]:
    """Of each source as many rows an epoch as its share asks for, to within a row, and at least one.

    A source without a share gives each row once, and the others what makes up their shares beside it. Where all have
    one, an epoch has as many rows as the sources have together.
    """
    given = math.fsum(share for share in shares if share is not None)
    whole = [count for count, share in zip(rows, shares, strict=True) if share is None]
    total = sum(whole) / (1 - given) if whole else sum(rows)
    return [count if share is None else max(1, round(share * total)) for count, share in zip(rows, shares, strict=True)]


@lru_cache(maxsize=2)
def order_of_epoch(rows: "int | Mix", epoch: int, seed: int) -> np.ndarray:
    """A permutation that depends on the seed and the epoch alone; of so many rows, or of those that a mix takes."""
    if isinstance(rows, Mix):
        return rows.epoch(epoch, seed)
    return np.random.default_rng([seed, epoch]).permutation(rows)
