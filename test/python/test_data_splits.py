# SPDX-License-Identifier: Apache-2.0
"""Folders of data."""

import pytest

from mebp.data.splits import data_files, find_splits
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
        ([], "has no file to train on; put one there, or give a file"),
        (["valid.jsonl", "README.md", ".hidden", "LICENSE"], "has no file to train on; put one there, or give a file"),
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


def test_without_a_train_file_all_the_others_are_trained_on(tmp_path):
    for name in ("part-2.jsonl", "part-1.jsonl", "test.jsonl", "validation.json", "README.md", ".gitattributes"):
        (tmp_path / name).touch()
    assert find_splits(tmp_path) == {
        "data": tmp_path,
        "eval": tmp_path / "validation.json",
        "test": tmp_path / "test.jsonl",
    }
    assert data_files(tmp_path) == [tmp_path / "part-1.jsonl", tmp_path / "part-2.jsonl"]


def test_a_folder_in_a_folder_is_not_left_out_in_silence(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(Error) as caught:
        find_splits(tmp_path)
    assert str(caught.value) == (f"{tmp_path}: has the folder more in it; give it with a --data of its own, or move it")
