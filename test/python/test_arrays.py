# SPDX-License-Identifier: Apache-2.0
"""Rows of different lengths, which no array has: what to do about them."""

import numpy as np
import pytest

from mebp import arrays
from mebp.errors import Error

PAD = "pad the shorter ones at the end with any token, and their labels with -100, which does not count"
ROWS = [[1, 2, 3], [4, 5, 6], [7, 8]]


def refusal(call: object, *given: object) -> str:
    with pytest.raises(Error) as caught:
        call(*given)
    return str(caught.value)


@pytest.mark.parametrize("rows", [ROWS, tuple(map(tuple, ROWS)), [np.array(row) for row in ROWS]])
def test_rows_of_different_lengths(rows):
    lengths = "rows of different lengths, {0}[0] of 3 tokens and {0}[2] of 2"
    for pair in (arrays.token_arrays, arrays.micro_batches):
        assert refusal(pair, rows, rows) == f"input_ids has {lengths.format('input_ids')}; {PAD}"
    assert refusal(arrays.token_arrays, np.ones((3, 3), int), rows) == f"labels has {lengths.format('labels')}; {PAD}"
    assert refusal(arrays.micro_batches, [[[1]], rows], [[[1]], rows]) == (
        f"input_ids[1] has {lengths.format('input_ids[1]')}; {PAD}"
    )
    assert refusal(arrays.token_array, "input_ids", rows, "give one") == (
        f"input_ids has {lengths.format('input_ids')}; give one"
    )


def test_what_numpy_makes_no_array_of():
    ragged = [np.ones((1, 2), int), np.ones((1, 3), int)]
    assert refusal(arrays.token_array, "labels", ragged) == (
        "labels cannot be made an array; give integers of shape [batch, sequence]"
    )
    assert refusal(arrays.token_array, "labels", [1, 2]) == (
        "labels has shape [2]; give integers of shape [batch, sequence]"
    )
    for values in ([[1.0], [2.0, 3.0]], "a"):
        message = refusal(arrays.named_arrays, "gradient", {"w": values}, {"w": (2, 1)}, True)
        assert message == "gradient 'w' cannot be made an array; give numbers of shape [2, 1]"


def test_lists_and_arrays_are_alike():
    rows = [[1, 2], [3, 4]]
    for given in (rows, tuple(rows), [np.array(row) for row in rows], np.array(rows)):
        ids, labels = arrays.token_arrays(given, given)
        assert ids.tolist() == labels.tolist() == rows and ids.dtype == np.int32
    ids, labels = arrays.micro_batches([rows, [[5]]], [np.array(rows), [[5]]])
    assert [each.tolist() for each in ids] == [each.tolist() for each in labels] == [rows, [[5]]]
