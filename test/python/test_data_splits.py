# SPDX-License-Identifier: Apache-2.0
"""Folders of data."""

import pytest

from mebp.data.splits import find_splits
from mebp.errors import Error


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train.jsonl"], {"data": "train.jsonl"}),
        (["train.json", "valid.jsonl"], {"data": "train.json", "eval": "valid.jsonl"}),
        (
            ["train.txt", "validation.json", "test.jsonl", "README.md", "training.jsonl"],
            {"data": "train.txt", "eval": "validation.json", "test": "test.jsonl"},
        ),
    ],
)
def test_files_by_their_names(tmp_path, names, expected):
    for name in names:
        (tmp_path / name).touch()
    assert find_splits(tmp_path) == {option: tmp_path / name for option, name in expected.items()}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "has no train.jsonl; name the file to train on so, or give a file"),
        (["valid.jsonl", "Train.jsonl"], "has no train.jsonl; name the file to train on so, or give a file"),
        (["train.jsonl", "train.json"], "has both train.jsonl and train.json; keep one of them"),
        (
            ["train.jsonl", "valid.jsonl", "validation.jsonl"],
            "has both valid.jsonl and validation.jsonl; keep one of them",
        ),
    ],
)
def test_refusals(tmp_path, names, message):
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(Error) as caught:
        find_splits(tmp_path)
    assert str(caught.value) == f"{tmp_path}: {message}"
