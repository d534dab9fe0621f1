# SPDX-License-Identifier: Apache-2.0
"""Reference log-probabilities in a file, and files that are of something else."""

import dataclasses
import json
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mebp import Error
from mebp.data.reference_file import MadeFrom, ReferenceFile, open_reference

LENGTHS = [3, 1, 4]
MADE_FROM = MadeFrom("b" * 64, "", "d" * 64)


def logps():
    rng = np.random.default_rng(0)
    return [-rng.exponential(size=length).astype(np.float32) for length in LENGTHS]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "reference.safetensors"
    reference = open_reference(path, MADE_FROM, LENGTHS)
    for index, values in enumerate(logps()):
        reference.get(index, lambda values=values: values)
    return path


def no_call():
    raise AssertionError("it is there")


def test_what_was_written_is_read_with_its_bits(path):
    reference = ReferenceFile(path, MADE_FROM, LENGTHS)
    assert len(reference) == 3
    for index, values in enumerate(logps()):
        np.testing.assert_array_equal(reference.get(index, no_call), values)
    np.testing.assert_array_equal(load_file(path)["logps"], np.concatenate(logps()))


@pytest.mark.parametrize(
    ("name", "value"),
    [("bundle", "c"), ("adapter", "a"), ("data", "e"), ("temperature", 0.7)],
    ids=lambda each: str(each),
)
def test_a_file_of_something_else_is_refused(path, name, value):
    with pytest.raises(Error) as error:
        ReferenceFile(path, dataclasses.replace(MADE_FROM, **{name: value}), LENGTHS)
    assert str(error.value) == (
        f"{path}: its log-probabilities are of another {name}; delete it, and the run makes it anew"
    )


def test_a_file_that_is_none_is_refused(path, tmp_path):
    other = tmp_path / "other.safetensors"
    save_file({"logps": np.zeros(8, np.float32)}, other)
    with pytest.raises(
        Error, match="is not a file of reference log-probabilities; delete it, and the run makes it anew"
    ):
        ReferenceFile(other, MADE_FROM, LENGTHS)
    with pytest.raises(Error, match="has another number of log-probabilities than the data has tokens; delete it"):
        ReferenceFile(path, MADE_FROM, [*LENGTHS, 1])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(Error, match="truncated"):
        ReferenceFile(path, MADE_FROM, LENGTHS)
    with pytest.raises(Error, match="cannot be read"):
        ReferenceFile(tmp_path / "missing", MADE_FROM, LENGTHS)


@pytest.mark.parametrize("odd", [np.inf, -np.inf])
def test_log_probabilities_that_are_none_are_refused(path, odd):
    content = load_file(path)
    stored = content["logps"].copy()
    stored[2] = odd
    save_file(content | {"logps": stored}, path)
    reference = ReferenceFile(path, MADE_FROM, LENGTHS)
    np.testing.assert_array_equal(reference.get(1, no_call), logps()[1])
    with pytest.raises(Error) as error:
        reference.get(0, no_call)
    assert str(error.value) == (
        f"{path}: has a log-probability that is not finite; delete it, and the run makes it anew"
    )


def test_what_it_was_made_from_is_short(path):
    """A hole in a file takes no disk, and would take all memory."""
    header = json.dumps({
        "logps": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]},
        "made_from": {"dtype": "U8", "shape": [1 << 40], "data_offsets": [0, 1 << 40]},
    }).encode()  # fmt: skip
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + (1 << 40))
    with pytest.raises(Error, match="is not a file of reference log-probabilities; delete it, and the run makes it"):
        ReferenceFile(path, MADE_FROM, [])


def test_each_is_computed_once(tmp_path):
    path = tmp_path / "folder" / "reference.safetensors"
    first = open_reference(path, MADE_FROM, LENGTHS)
    np.testing.assert_array_equal(first.get(2, lambda: logps()[2]), logps()[2])
    again = open_reference(path, MADE_FROM, LENGTHS)
    np.testing.assert_array_equal(again.get(2, no_call), logps()[2])
    np.testing.assert_array_equal(again.get(0, lambda: logps()[0]), logps()[0])
    with pytest.raises(Error, match="the reference's log-probabilities are not finite; check the model"):
        again.get(1, lambda: np.array([np.inf]))
    np.testing.assert_array_equal(first.get(1, lambda: logps()[1]), logps()[1])
