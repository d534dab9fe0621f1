# SPDX-License-Identifier: Apache-2.0
"""Runs of numbers, which processes have, are about as large."""

import numpy as np
import pytest

from mebp.distributed.numbering import number_by_size


def runs(sizes: list[int], order: list[int], length: int) -> np.ndarray:
    """What each run of so many numbers has to compute."""
    return np.array([sizes[index] for index in order]).reshape(-1, length).sum(axis=1)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8, 12, 16, 24, 64])
def test_each_has_one_and_runs_are_about_alike(count):
    generator = np.random.default_rng(count)
    for _ in range(20):
        sizes = generator.integers(1, 2048, count).tolist()
        order = number_by_size(sizes)
        assert sorted(order) == list(range(count))
        length = 1
        while count % (2 * length) == 0:
            length *= 2
            found = runs(sizes, order, length)
            # No two differ by more than the largest micro-batch.
            assert found.max() - found.min() <= max(sizes)


def test_numbers_follow_from_sizes_alone():
    assert number_by_size([]) == []
    assert number_by_size([5]) == [0]
    assert number_by_size([7, 7, 7, 7]) == number_by_size([7, 7, 7, 7]) == [0, 2, 1, 3]
    assert number_by_size([1, 9, 2, 8]) == [1, 0, 3, 2]
    assert number_by_size([0, 10, 0, 10]) == [1, 0, 3, 2]
