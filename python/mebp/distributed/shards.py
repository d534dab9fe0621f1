# SPDX-License-Identifier: Apache-2.0
"""What each process updates and keeps an optimizer's state of, and how all send one another what is lacking.

Terms: each trainable's elements are owned by one process, or in ranges by several (mebp_bundle_own_elements). A slice
is what is sent at once: of each rank so many of its elements as a slot has room for. Slices go through trainables from
the last to the first, and through all ranks' ranges of one at the same time, so that all ranks are busy.

1. Gradients: each slice goes to its owners, who sum what they get in the tree. The rest of a gradient is of no use.
2. The norm's squares, of tiles that have one owner each, are gathered and added in the order of one process.
3. After the update each slice of values goes from its owners to all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mebp.distributed.group import Group
from mebp.distributed.tree import join_in_tree
from mebp.extension import load_runtime
from mebp.session import Session

_SLOTS = 4 << 20  # bytes of all


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements of a trainable."""

    index: int
    begin: int
    end: int


@dataclass(frozen=True)
class Slice:
    of: list[list[Piece]]  # by rank
    ended: list[int]  # trainables that are not in any later one


def slices(sizes: Sequence[int], owned: Sequence[Sequence[tuple[int, int]]], room: int) -> Iterator[Slice]:
    """Over trainables of so many elements, of which `owned` has each rank's ranges; `room` elements of each rank."""
    of: list[list[Piece]] = [[] for _ in owned]
    left, ended = [room] * len(owned), []
    for index in range(len(sizes) - 1, -1, -1):
        begins = [ranges[index][0] for ranges in owned]
        while True:
            for rank, ranges in enumerate(owned):
                if count := min(ranges[index][1] - begins[rank], left[rank]):
                    of[rank].append(Piece(index, begins[rank], begins[rank] + count))
                    begins[rank] += count
                    left[rank] -= count
            if all(begin == ranges[index][1] for begin, ranges in zip(begins, owned, strict=True)):
                break
            yield Slice(of, ended)
            of, left, ended = [[] for _ in owned], [room] * len(owned), []
        ended.append(index)
    yield Slice(of, ended)


class Shards:
    """Of a session in each process of a group, whose trainables' gradients have so many elements."""

    def __init__(self, group: Group, session: Session, sizes: Sequence[int]) -> None:
        self._group, self._session, self._sizes = group, session, sizes
        self._tiles = [load_runtime().norm_tile(size) for size in sizes]
        whole = session.native.own_elements(0, 1)
        self._owned = [[(0, size) if own == all_of_it else own
                        for own, all_of_it, size in zip(session.native.own_elements(rank, group.size), whole, sizes,
                                                        strict=True)]
                       for rank in range(group.size)]  # fmt: skip
        room = self._room(sizes, group.size)
        self._sent, self._received = (np.zeros((group.size, room), np.float32) for _ in range(2))

    def slices(self) -> Iterator[Slice]:
        """Of gradients, made as they are asked for: there are many pieces."""
        return slices(self._sizes, self._owned, self._sent.shape[1])

    @staticmethod
    def _room(sizes: Sequence[int], ranks: int) -> int:
        return -(-min(_SLOTS // 4, sum(sizes)) // ranks)

    @staticmethod
    def bytes_of(sizes: Sequence[int], ranks: int) -> int:
        """What sending takes beside the session."""
        return 2 * 4 * ranks * Shards._room(sizes, ranks)

    def sum_to_owners(self, of: Slice, gradients: Mapping[int, np.ndarray]) -> None:
        """float32 [elements] each: what is owned here becomes the sum over ranks, in place."""
        own = of.of[self._group.rank]
        sent = [collect(pieces, gradients, buffer) for pieces, buffer in zip(of.of, self._sent, strict=True)]
        received = [buffer[: sent[self._group.rank].size] for buffer in self._received]
        self._group.exchange(sent, received)
        spread(own, join_in_tree(received), gradients)

    def share_values(self) -> None:
        """Each process's session gets what the others have updated."""
        values = [self._session.native.trainable_values(index) for index in range(len(self._sizes))]
        owned = [[_bytes_of(elements, size, memory.size)
                  for elements, size, memory in zip(ranges, self._sizes, values, strict=True)]
                 for ranges in self._owned]  # fmt: skip
        sent, received = (each.view(np.uint8) for each in (self._sent, self._received))
        for each in slices([memory.size for memory in values], owned, received.shape[1]):
            own = collect(each.of[self._group.rank], values, sent[0])
            others = [buffer[: _count(pieces)] for pieces, buffer in zip(each.of, received, strict=True)]
            self._group.exchange([own] * self._group.size, others)
            for pieces, buffer in zip(each.of, others, strict=True):
                spread(pieces, buffer, values)

    def norm(self, squares: np.ndarray) -> float:
        """The sum of squares of all tiles, from those of what is owned here."""
        tiles: dict[tuple[int, int], float] = {}
        for ranges, given in zip(self._owned, self._group.gather_arrays(squares), strict=True):
            found = iter(given.tolist())
            for index, (begin, end) in enumerate(ranges):
                tiles |= {(index, first): next(found) for first in range(begin, end, self._tiles[index])}
        total, parts = 0.0, [0.0] * len(self._sizes)
        for index, first in sorted(tiles):
            parts[index] += tiles[index, first]
        for part in parts:
            total += part
        return total


def _count(pieces: Sequence[Piece]) -> int:
    return sum(each.end - each.begin for each in pieces)


def _bytes_of(elements: tuple[int, int], size: int, stored: int) -> tuple[int, int]:
    """Where a range of a gradient of so many elements lies in the trainable's bytes. What is in groups or projected is
    owned whole."""
    begin, end = elements
    return (begin * stored // size, end * stored // size)


def collect(pieces: Sequence[Piece], arrays: Mapping[int, np.ndarray] | Sequence[np.ndarray],
            room: np.ndarray) -> np.ndarray:  # fmt: skip
    """One behind the other, in `room`."""
    count = 0
    for each in pieces:
        room[count : count + each.end - each.begin] = arrays[each.index][each.begin : each.end]
        count += each.end - each.begin
    return room[:count]


def spread(pieces: Sequence[Piece], values: np.ndarray,
           arrays: Mapping[int, np.ndarray] | Sequence[np.ndarray]) -> None:  # fmt: skip
    """Back into their places."""
    begin = 0
    for each in pieces:
        arrays[each.index][each.begin : each.end] = values[begin : begin + each.end - each.begin]
        begin += each.end - each.begin
