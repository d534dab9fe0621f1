# SPDX-License-Identifier: Apache-2.0
"""Checks of the arrays that callers hand in, so that the runtime gets what its C API promises to take."""

import reprlib
from collections.abc import Mapping, Sequence

import numpy as np

from mebp.errors import Error, translate_errors

IGNORED_LABEL = -100


# Labels of padding must not count, or the model learns to write it.
PAD = "pad the shorter ones at the end with any token, and their labels with -100, which does not count"


def token_array(name: str, values: object, when_ragged: str = PAD) -> np.ndarray:
    """`values` as a contiguous int32 array [batch, sequence].

    name: what an error calls it.
    when_ragged: what an error says to do about rows of different lengths.
    """
    _check_rows(name, values, when_ragged)
    advice = "give integers of shape [batch, sequence]"
    with translate_errors(f"{name} cannot be made an array", advice, (ValueError, TypeError, RuntimeError)):
        array = np.asarray(values)
    if array.ndim != 2 or array.size == 0:
        raise Error(f"{name} has shape {list(array.shape)}; give integers of shape [batch, sequence]")
    if array.dtype.kind not in "iu":
        raise Error(f"{name} has dtype {array.dtype}; give integers of shape [batch, sequence]")
    limits = np.iinfo(np.int32)
    outside = np.argwhere((array < limits.min) | (array > limits.max))
    if len(outside):
        row, column = outside[0]
        raise Error(f"{name}[{row}, {column}] is {array[row, column]}, which is not a token id; check the tokenizer")
    return np.ascontiguousarray(array, dtype=np.int32)


def token_arrays(input_ids: object, labels: object) -> tuple[np.ndarray, np.ndarray]:
    """Ids and labels as int32 arrays of one shape."""
    ids, targets = token_array("input_ids", input_ids), token_array("labels", labels)
    if ids.shape != targets.shape:
        raise Error(f"input_ids has shape {list(ids.shape)} and labels {list(targets.shape)}; give both the same shape")
    return ids, targets


def micro_batches(input_ids: object, labels: object) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Ids and labels of one batch, or of several where lists of arrays are given, each pair of one shape."""
    if not (_is_list_of_arrays(input_ids) or _is_list_of_arrays(labels)):
        ids, targets = token_arrays(input_ids, labels)
        return [ids], [targets]
    if not (_is_list_of_arrays(input_ids) and _is_list_of_arrays(labels)):
        raise Error("one of input_ids and labels is a list of micro-batches; give both as such lists")
    if len(input_ids) != len(labels):
        raise Error("input_ids and labels are lists of different lengths; give one array of each for every micro-batch")
    ids = [token_array(f"input_ids[{index}]", values) for index, values in enumerate(input_ids)]
    targets = [token_array(f"labels[{index}]", values) for index, values in enumerate(labels)]
    for index, (one, other) in enumerate(zip(ids, targets, strict=True)):
        if one.shape != other.shape:
            raise Error(
                f"input_ids[{index}] has shape {list(one.shape)} and labels[{index}] {list(other.shape)}; "
                "make them alike"
            )
    return ids, targets


def starts_array(name: str, values: object | None, ids: np.ndarray) -> np.ndarray | None:
    """`values` as an int32 array of the shape of `ids`; None for None."""
    if values is None:
        return None
    starts = token_array(name, values, "give one for each token")
    if starts.shape != ids.shape:
        raise Error(f"{name} has shape {list(starts.shape)}; give one for each token, {list(ids.shape)}")
    return starts


def starts_of_batches(starts: object | None, ids: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Those of each micro-batch, as starts_array has them; an empty list for None."""
    if starts is None:
        return []
    if not _is_list_of_arrays(starts):
        if len(ids) != 1:
            raise Error("input_ids is a list of micro-batches; give starts as a list of one array for each")
        return [starts_array("starts", starts, ids[0])]
    if len(starts) != len(ids):
        raise Error("input_ids and starts are lists of different lengths; give one array of each for every micro-batch")
    return [starts_array(f"starts[{index}]", each, ids[index]) for index, each in enumerate(starts)]


def _is_list_of_arrays(values: object) -> bool:
    # A batch may be a list too, of rows of numbers.
    return isinstance(values, list | tuple) and len(values) > 0 and _dimensions(values[0]) == 2


def _dimensions(values: object) -> int:
    """Counted along the first elements, for numpy refuses lists whose rows have different lengths."""
    if isinstance(values, list | tuple):
        return 1 + (_dimensions(values[0]) if values else 0)
    return np.ndim(values)


def _check_rows(name: str, values: object, advice: str) -> None:
    if not isinstance(values, list | tuple) or any(_dimensions(row) != 1 for row in values):
        return
    lengths = [len(row) for row in values]
    for index, length in enumerate(lengths):
        if length != lengths[0]:
            raise Error(
                f"{name} has rows of different lengths, {name}[0] of {lengths[0]} tokens and "
                f"{name}[{index}] of {length}; {advice}"
            )


def named_arrays(
    what: str, given: Mapping[str, object], shapes: Mapping[str, tuple[int, ...]], complete: bool
) -> dict[str, np.ndarray]:
    """`given` as contiguous float32 arrays, each with the shape that `shapes` has for its key.

    Raises mebp.Error for a key that `shapes` lacks, for another shape and, where `complete`, for a missing key.
    """
    if not isinstance(given, Mapping):
        raise Error(f"{what}s are {reprlib.repr(given)}; give a dict of arrays, as trainables() is")
    unknown = next((key for key in given if key not in shapes), None)
    if unknown is not None:
        raise Error(f"{what} '{unknown}' is not in this bundle; session.trainables() lists the keys")
    missing = next((key for key in shapes if key not in given), None)
    if complete and missing is not None:
        raise Error(f"{what} '{missing}' is missing; give all {len(shapes)}")
    arrays = {}
    for key, values in given.items():
        with translate_errors(
            f"{what} '{key}' cannot be made an array",
            f"give numbers of shape {list(shapes[key])}",
            (ValueError, TypeError),
        ):
            array = np.ascontiguousarray(values, dtype=np.float32)
        if array.shape != shapes[key]:
            raise Error(f"{what} '{key}' has shape {list(array.shape)}; this bundle needs {list(shapes[key])}")
        arrays[key] = array
    return arrays


def float_array(name: str, values: object, shape: tuple[int, ...]) -> np.ndarray:
    """`values` as a float32 array of this shape."""
    with translate_errors(f"{name} cannot be made an array", f"give numbers of shape {list(shape)}",
                          (ValueError, TypeError, RuntimeError)):  # fmt: skip
        array = np.asarray(values, dtype=np.float32)
    if array.shape != shape:
        raise Error(f"{name} have shape {list(array.shape)}; give {list(shape)}, as logprobs has")
    return array
