# SPDX-License-Identifier: Apache-2.0
"""Samples side by side in one row, so that short ones cost their tokens and not a row each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Row
from mebp.data.store import Spans

_AT_ONCE = 1 << 16  # samples as numbers of Python's
_TOGETHER = 1 << 6  # rows that are made at once


@dataclass(frozen=True)
class Sharing:
    """How samples share rows."""

    seed: int = 0  # of the order in which they are placed
    may_cut: bool = True  # one that is longer than a row, instead of refusing it


@dataclass(frozen=True)
class SharedRows(Sequence[Row]):
    """Rows of several samples each, which are joined when a row is asked for."""

    samples: Sequence[Row]
    members: np.ndarray  # the samples' numbers, row after row
    bounds: np.ndarray  # [rows + 1], where each row's members begin, and the last one's end

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, index: int) -> Row:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        return next(self._rows(index, index + 1))

    def __iter__(self) -> Iterator[Row]:
        for begin in range(0, len(self), _TOGETHER):
            yield from self._rows(begin, min(begin + _TOGETHER, len(self)))

    def _rows(self, begin: int, end: int) -> Iterator[Row]:
        """The rows [begin, end), of whose samples all are looked up at once."""
        bounds = self.bounds[begin : end + 1]
        ids, labels, lengths, shift = _chosen(self.samples, self.members[bounds[0] : bounds[-1]])
        behind = np.cumsum(lengths)
        first = behind - lengths  # token of each sample
        if shift:
            labels[first] = IGNORED_LABEL  # which nothing predicts
        bounds = bounds - bounds[0]
        row_first = np.append(first, len(ids))[bounds]
        starts = np.repeat(first - np.repeat(row_first[:-1], np.diff(bounds)), lengths).astype(np.int32)
        for start, stop in pairwise(row_first.tolist()):
            yield Row(ids[start:stop], labels[start:stop], starts[start:stop], shift)


def share_rows(samples: Sequence[Row], length: int, seed: int) -> SharedRows:
    """Rows of up to `length` tokens, in the order in which they were begun."""
    return SharedRows(samples, *place_samples(np.array([len(sample) for sample in samples]), length, seed))


def place_samples(lengths: np.ndarray, length: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of samples of these lengths stand in which row: members and bounds, as SharedRows has them.

    Samples come in a shuffled order, since neighbours in a file are often alike; each goes where the least room is left
    that holds it, of several such rows into the first, or else begins a row.
    """
    order = np.random.default_rng(seed).permutation(len(lengths))
    row_of = np.empty(len(order), np.int32)
    rows, room = 0, 0  # a bit for each number of tokens that some row has left
    with_room: list[list[int]] = [[] for _ in range(length + 1)]  # rows by the tokens that they have left
    for start in range(0, len(order), _AT_ONCE):
        for place, size in enumerate(lengths[order[start : start + _AT_ONCE]].tolist(), start):
            fitting = room >> size
            if fitting:
                left = size + (fitting & -fitting).bit_length() - 1
                row = heappop(with_room[left])
                room ^= 0 if with_room[left] else 1 << left
            else:
                left, row = length, rows
                rows += 1
            row_of[place] = row
            heappush(with_room[left - size], row)
            room |= 1 << (left - size)
    members = order[np.argsort(row_of, kind="stable")]
    return members, np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=rows))])


def _chosen(samples: Sequence[Row], members: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Ids and labels of these samples, one after the other, their lengths, and how labels are shifted."""
    if isinstance(samples, Spans):
        return *samples.chosen(members), 1
    rows = [samples[member] for member in members]
    ids, labels = (np.concatenate([getattr(row, name) for row in rows]) for name in ("ids", "labels"))
    return ids, labels, np.array([len(row) for row in rows]), rows[0].shift
