# SPDX-License-Identifier: Apache-2.0
"""Samples side by side in one row, so that short ones cost their tokens and not a row each."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Row

_AT_ONCE = 1 << 16  # samples as numbers of Python's


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
        return _joined([self.samples[member] for member in self.members[self.bounds[index] : self.bounds[index + 1]]])


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


def _joined(samples: Sequence[Row]) -> Row:
    lengths = [len(sample) for sample in samples]
    first = np.cumsum([0, *lengths[:-1]])
    labels = np.concatenate([sample.labels for sample in samples])
    shift = samples[0].shift
    if shift:
        labels[first] = IGNORED_LABEL  # which nothing predicts
    ids = np.concatenate([sample.ids for sample in samples])
    return Row(ids, labels, np.repeat(first, lengths).astype(np.int32), shift)
