# SPDX-License-Identifier: Apache-2.0
"""Samples that a caller of mebp.train has in a list: they become a file, and from there on take a file's way.

The file lies in the cache by its content, so that a run which goes on finds the same one and `mebp cache` prunes it.
"""

import hashlib
import json
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from mebp.cache import Cache
from mebp.data.hub import is_hub
from mebp.data.splits import ENDINGS
from mebp.errors import Error
from mebp.numbers import as_float
from mebp.waiting import tell
from mebp.words import called

_DATA, _ASK = "data", "ask"  # which may be several paths, and texts
_TAKING = (_DATA, "eval", "test", "rollouts", _ASK)
_WANTED = "give a dict for each sample, or a text for each"
_DIGITS = 20
# Methods of what holds a table, by which it becomes a list.
_BECOME = {"iterrows": 'to_dict("records")', "to_dicts": "to_dicts()", "to_pylist": "to_pylist()"}


@contextmanager
def lists_as_files(given: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """The options with a file in place of each list of samples; lines that are told meanwhile say "sample 3 of data".

    Raises mebp.Error for what is neither a path nor such a list.
    """
    with ExitStack() as stack:

        def write(name: str, samples: Sequence[object]) -> Path:
            file = _file_of(name, samples)
            stack.enter_context(called(str(file), name))
            return file

        def read(name: str, value: object) -> object:
            if isinstance(value, str | os.PathLike) or (value is None and name != _DATA):
                return value
            if not isinstance(value, list | tuple):
                raise _not_a_list(name, value)
            if name == _ASK and all(isinstance(each, str | os.PathLike) for each in value):
                return value
            if name == _DATA and any(isinstance(each, list | tuple) for each in value):
                return [read(f"{name}[{index}]", each) for index, each in enumerate(value)]
            return value if _are_paths(name, value) else write(name, value)

        yield {name: read(name, value) if name in _TAKING else value for name, value in given.items()}


def _not_a_list(name: str, value: object) -> Error:
    method = next((method for method in _BECOME if hasattr(value, method)), None)
    if method:
        wanted = f"{name}.{_BECOME[method]}, a list of dicts"
    elif isinstance(value, Iterable) and not isinstance(value, Mapping | bytes):
        wanted = f"list({name}), with a dict or a text for each sample"
    else:
        return Error(f"{name} is {reprlib.repr(value)}; give a path, or a list with a dict or a text for each sample")
    return Error(f"{name} is of type {type(value).__name__}; give {wanted}")


def _are_paths(name: str, values: Sequence[object]) -> bool:
    """Whether a list with these names files, each by a string or a path, and no sample."""
    paths = [each for each in values if isinstance(each, os.PathLike) or (isinstance(each, str) and _is_path(each))]
    if 0 < len(paths) < len(values):
        raise Error(
            f"{name} has {str(paths[0])!r}, which names a file, among samples; give files alone or samples alone, and "
            'a text that is a name, too, as {"text": ...}'
        )
    # Words alone may be names with a mistake in them; as paths they are refused with it.
    words = [each for each in values if isinstance(each, str) and _is_word(each)]
    return bool(values) and len(values) in (len(paths), len(words))


def _is_path(text: str) -> bool:
    """Of a file or folder, with its share where it has one, or of the hub."""
    name, _, share = text.rpartition(":")
    path = name if as_float(share) is not None else text
    return is_hub(text) or (_is_word(path) and path.endswith(ENDINGS)) or _exists(path) or _exists(text)


def _is_word(text: str) -> bool:
    return bool(text) and not any(map(str.isspace, text))


def _exists(path: str) -> bool:
    return bool(path) and os.path.exists(os.path.expanduser(path))


def _file_of(name: str, samples: Sequence[object]) -> Path:
    """Where the samples lie as JSON lines. Raises mebp.Error, with the sample, for what JSON does not have."""
    if not samples:
        raise Error(f"{name} is an empty list; {_WANTED}")
    digest = hashlib.sha256()
    for line in _lines(name, samples):
        digest.update(line)

    def make(folder: Path) -> None:
        with (folder / f"{name}.jsonl").open("wb") as file:
            file.writelines(_lines(name, samples))

    folder, _ = Cache(tell).keep(f"lists/{name}-{digest.hexdigest()[:_DIGITS]}", make)
    return folder / f"{name}.jsonl"


def _lines(name: str, samples: Sequence[object]) -> Iterator[bytes]:
    for number, sample in enumerate(samples, start=1):
        where = f"sample {number} of {name}"
        if not isinstance(sample, dict | str):
            raise Error(f"{where} is of type {type(sample).__name__}; {_WANTED}")
        if isinstance(sample, dict) != isinstance(samples[0], dict):
            kinds = ("dict", "text") if isinstance(sample, dict) else ("text", "dict")
            raise Error(f"{where} is a {kinds[0]} where the first one is a {kinds[1]}; {_WANTED}")
        entry = sample if isinstance(sample, dict) else {"text": sample}
        yield f"{_as_json(where, entry)}\n".encode()


def _as_json(where: str, entry: dict) -> str:
    def plain(value: object) -> object:
        if isinstance(value, np.generic | np.ndarray):
            return value.tolist()
        raise Error(f"{where}: has a value of type {type(value).__name__}; give texts, numbers, lists and dicts alone")

    try:
        return json.dumps(entry, default=plain)
    except TypeError as error:
        raise Error(f"{where}: has a key that is not a text; give each value a name") from error
    except (ValueError, RecursionError) as error:
        raise Error(f"{where}: holds itself or is nested too deep; make it flatter") from error
