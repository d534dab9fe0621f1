# SPDX-License-Identifier: Apache-2.0
"""A folder of data: a file to train on or several, and others to measure on."""

from pathlib import Path

from mebp.errors import Error, translate_errors

_NAMES = {"data": ("train",), "eval": ("valid", "validation"), "test": ("test",)}
ENDINGS = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet", ".arrow", ".feather", ".txt")
_ABOUT = ("readme", "license", "licence")  # files that say what a folder holds


def find_splits(folder: Path) -> dict[str, Path]:
    """The folder's files by the options of `mebp train` that take them: its train.jsonl, or the folder itself where all
    other files in it are to train on. Raises mebp.Error where there is none."""
    there = {file.name: file for file in _listed(folder)}
    found = {}
    for option, names in _NAMES.items():
        files = [there[name + ending] for name in names for ending in ENDINGS if name + ending in there]
        if len(files) > 1:
            raise Error(f"{folder}: has both {files[0].name} and {files[1].name}; keep one of them")
        if files:
            found[option] = files[0]
    if "data" not in found:
        data_files(folder)  # which says that there are none
        found["data"] = folder
    return found


def data_files(folder: Path) -> list[Path]:
    """The files in a folder in the order of their names, without those to measure on, hidden ones and a README."""
    others = [name + ending for option in ("eval", "test") for name in _NAMES[option] for ending in ENDINGS]
    files = [file for file in sorted(_listed(folder)) if file.name not in others and not _is_about(file)]
    for file in files:
        if file.is_dir():
            raise Error(f"{folder}: has the folder {file.name} in it; give it with a --data of its own, or move it")
    if not files:
        raise Error(f"{folder}: has no file to train on; put one there, or give a file")
    return files


def _listed(folder: Path) -> list[Path]:
    with translate_errors(f"{folder}: cannot be read", "check the path"):
        return list(folder.iterdir())


def _is_about(file: Path) -> bool:
    return file.name.startswith(".") or file.name.lower().partition(".")[0] in _ABOUT
