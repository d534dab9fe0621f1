# SPDX-License-Identifier: Apache-2.0
"""Samples side by side in one row, so that short ones cost their tokens and not a row each."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Row


@dataclass(frozen=True)
class Sharing:
    """How samples share rows."""

    seed: int = 0  # of the order in which they are placed
    may_cut: bool = True  # one that is longer than a row, instead of refusing it


def share_rows(samples: Sequence[Row], length: int, seed: int) -> list[Row]:
    """Rows of up to `length` tokens, in the order in which they were begun.

    Samples come in a shuffled order, since neighbours in a file are often alike; each goes where the least room is left
    that holds it, or else begins a row.
    """
    rows: list[list[Row]] = []
    room: list[tuple[int, int]] = []  # of each row and its number, the least first
    for index in np.random.default_rng(seed).permutation(len(samples)):
        sample = samples[index]
        place = bisect_left(room, (len(sample), -1))
        if place < len(room):
            left, row = room.pop(place)
            rows[row].append(sample)
        else:
            left, row = length, len(rows)
            rows.append([sample])
        insort(room, (left - len(sample), row))
    return [_joined(each) for each in rows]


def _joined(samples: Sequence[Row]) -> Row:
    lengths = [len(sample) for sample in samples]
    first = np.cumsum([0, *lengths[:-1]])
    labels = np.concatenate([sample.labels for sample in samples])
    shift = samples[0].shift
    if shift:
        labels[first] = IGNORED_LABEL  # which nothing predicts
    ids = np.concatenate([sample.ids for sample in samples])
    return Row(ids, labels, np.repeat(first, lengths).astype(np.int32), shift)
