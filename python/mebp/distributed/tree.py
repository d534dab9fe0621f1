# SPDX-License-Identifier: Apache-2.0
"""Sums over the ranks of a group, of neighbours first, in memory that is there from the beginning.

1. Each rank sends to each the values that this one sums: a part of all.
2. Each sums its part of all ranks, where it has received it.
3. Each sends its sums to all, who get them where the values were.
These are the bytes of a ring, and the order of the additions depends on nothing but the ranks.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Exchanging(Protocol):
    """What of a Group a sum needs. Raises mebp.Error where another process is lost."""

    size: int

    def exchange(self, sent: Sequence[np.ndarray], received: Sequence[np.ndarray]) -> None: ...

    def reduce(self, values: np.ndarray) -> None: ...


class TreeSum:
    """`values`: float32 of which `sum` makes the sums over all ranks, in place; at least `capacity` of them."""

    def __init__(self, group: Exchanging, capacity: int) -> None:
        self._group = group
        self.values, self._received = (np.zeros(_padded(capacity, group.size), np.float32) for _ in range(2))

    @staticmethod
    def bytes_of(capacity: int, ranks: int) -> int:
        """What its memory takes."""
        return 2 * 4 * _padded(capacity, ranks)

    def sum(self, count: int) -> None:
        """Of the first `count` values, which is the same in all ranks."""
        ranks = self._group.size
        padded = _padded(count, ranks)
        self.values[count:padded] = 0
        values, received = (each[:padded].reshape(ranks, -1) for each in (self.values, self._received))
        self._group.exchange(values, received)
        self._group.exchange([join_in_tree(received)] * ranks, values)


class RingSum:
    """The same in whatever order torch's all_reduce adds, which depends on the number of ranks."""

    def __init__(self, group: Exchanging, capacity: int) -> None:
        self._group = group
        self.values = np.zeros(capacity, np.float32)

    @staticmethod
    def bytes_of(capacity: int, ranks: int) -> int:
        """What its memory takes, with torch's."""
        return 2 * 4 * _padded(capacity, ranks)

    def sum(self, count: int) -> None:
        """Of the first `count` values, which is the same in all ranks."""
        self._group.reduce(self.values[:count])


def _padded(count: int, ranks: int) -> int:
    return -(-count // ranks) * ranks


def join_in_tree(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The first of them, to which the others are added: neighbours first, then pairs of them, and what is left, the
    latest first: as a session sums micro-batches (runtime/train/gradients.h)."""
    open_sums: list[np.ndarray] = []
    for number, part in enumerate(parts):
        open_sums.append(part)
        rest, is_last = number, number + 1 == len(parts)
        while len(open_sums) > 1 and (rest & 1 or is_last):
            later = open_sums.pop()
            open_sums[-1] += later
            rest >>= 1
    return open_sums[0]
