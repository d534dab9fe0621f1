# SPDX-License-Identifier: Apache-2.0
"""Which number each micro-batch of a step has.

Terms: the size of a micro-batch is what it takes to compute. Numbers follow from sizes alone, never from how many
processes there are, and processes have runs of 2^k numbers: so runs of each such length are to be about as large.
1. M = g 2^k with an odd g. The micro-batches are dealt to g groups of 2^k: the largest first, each to the group that
   has least and is not full (Graham's rule of the longest first, with as many in each).
2. Each group is dealt likewise to two halves, and so on down to single ones.
"""

from collections.abc import Sequence


def number_by_size(sizes: Sequence[int]) -> list[int]:
    """Indices of micro-batches in the order of their numbers."""
    if not sizes:
        return []
    groups = len(sizes)
    while groups % 2 == 0:
        groups //= 2
    order = []
    for group in _deal(sorted(range(len(sizes)), key=lambda index: (-sizes[index], index)), sizes, groups):
        order += _halved(group, sizes)
    return order


def _halved(group: list[int], sizes: Sequence[int]) -> list[int]:
    if len(group) == 1:
        return group
    first, second = _deal(group, sizes, 2)
    return _halved(first, sizes) + _halved(second, sizes)


def _deal(indices: Sequence[int], sizes: Sequence[int], count: int) -> list[list[int]]:
    """`indices` come with the largest first, and stay so in each of the groups."""
    groups: list[list[int]] = [[] for _ in range(count)]
    totals, room = [0] * count, len(indices) // count
    for index in indices:
        chosen = min((total, number) for number, total in enumerate(totals) if len(groups[number]) < room)[1]
        groups[chosen].append(index)
        totals[chosen] += sizes[index]
    return groups
