# SPDX-License-Identifier: Apache-2.0
"""A folder of data: a file to train on, and others to measure on."""

from pathlib import Path

from mebp.errors import Error, translate_errors

_NAMES = {"data": ("train",), "eval": ("valid", "validation"), "test": ("test",)}
_ENDINGS = (".jsonl", ".json", ".txt")


def find_splits(folder: Path) -> dict[str, Path]:
    """The folder's files by the options of `mebp train` that take them; raises mebp.Error where none is to train on."""
    with translate_errors(f"{folder}: cannot be read", "check the path"):
        there = {file.name: file for file in folder.iterdir()}
    found = {}
    for option, names in _NAMES.items():
        files = [there[name + ending] for name in names for ending in _ENDINGS if name + ending in there]
        if len(files) > 1:
            raise Error(f"{folder}: has both {files[0].name} and {files[1].name}; keep one of them")
        if files:
            found[option] = files[0]
    if "data" not in found:
        raise Error(f"{folder}: has no train.jsonl; name the file to train on so, or give a file")
    return found
