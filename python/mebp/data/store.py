# SPDX-License-Identifier: Apache-2.0
"""Tokens of all samples one after the other, in memory or in files that are mapped."""

import io
import json
import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Row
from mebp.errors import Error, translate_errors

_ABOUT = "about.json"
_TYPES = {"ids": np.int32, "learned": bool, "bounds": np.int64, "weights": np.float32}


@dataclass(frozen=True)
class About:
    """What was read."""

    kind: str  # what counts: "text", all of it, a "completion", or what the "assistant" says
    notes: list[str] = field(default_factory=list)  # on the samples, without the file's name


@dataclass(frozen=True)
class Tokens:
    ids: np.ndarray  # int32
    learned: np.ndarray  # bool, whether a token is its own label or none that counts; empty of text, which counts
    bounds: np.ndarray  # int64 [samples + 1], where each begins and the last ends; of text it is one
    about: About
    weights: np.ndarray | None = None  # float32, what a token that counts is multiplied by; None: 1

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.bounds)


@dataclass(frozen=True)
class Spans(Sequence[Row]):
    """Rows that are parts of the tokens, [begins, ends)."""

    tokens: Tokens
    begins: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, index: int) -> Row:
        part = slice(int(self.begins[index]), int(self.ends[index]))
        ids = self.tokens.ids[part]
        if not len(self.tokens.learned):
            return Row(ids, ids)
        weights = None if self.tokens.weights is None else self.tokens.weights[part]
        return Row(ids, np.where(self.tokens.learned[part], ids, np.int32(IGNORED_LABEL)), weights=weights)

    def chosen(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids and labels of several rows, one after the other, and their lengths."""
        begins = self.begins[indices]
        lengths = self.ends[indices] - begins
        before = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) + np.repeat(begins - before, lengths)
        ids = self.tokens.ids[places]
        return ids, np.where(self.tokens.learned[places], ids, np.int32(IGNORED_LABEL)), lengths


class TokenWriter:
    """Takes samples in, one after the other; into a folder, or into memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._files = {name: self._opened(name) for name in _TYPES}
        self._end = 0
        self._bound(0)
        self.listener: Callable[[np.ndarray], None] = lambda ids: None  # hears of all ids

    def add(
        self,
        ids: np.ndarray,
        learned: np.ndarray | None = None,
        ends: bool = True,
        weights: np.ndarray | None = None,
    ) -> None:
        """A sample, or with `ends` false a part of one; `learned` and `weights` as Tokens has them, of text None."""
        self.listener(ids)
        for name, values in {"ids": ids, "learned": learned, "weights": weights}.items():
            if values is not None:
                self._files[name].write(np.ascontiguousarray(values, _TYPES[name]).data)
        self._end += len(ids)
        if ends:
            self._bound(self._end)

    def finish(self, about: About) -> None:
        for file in self._files.values():
            file.flush()
        if self._folder:
            for file in self._files.values():
                file.close()
            (self._folder / _ABOUT).write_text(json.dumps(asdict(about)), encoding="utf-8")

    def tokens(self, about: About) -> Tokens:
        """Of what was written into memory."""
        content = {name: file.getbuffer() for name, file in self._files.items()}
        return _tokens(content, about)

    def _bound(self, position: int) -> None:
        self._files["bounds"].write(position.to_bytes(8, "little"))

    def _opened(self, name: str) -> BinaryIO:
        return (self._folder / name).open("wb") if self._folder else io.BytesIO()


def read_tokens(folder: Path) -> Tokens:
    """What a TokenWriter left there, mapped. Raises mebp.Error where something is missing or damaged."""
    with translate_errors(
        f"{folder}: cannot be read", "delete it, and it is made again", (OSError, ValueError, TypeError)
    ):
        about = About(**json.loads((folder / _ABOUT).read_text(encoding="utf-8")))
        tokens = _tokens({name: map_file(folder / name) for name in _TYPES}, about)
    if (
        len(tokens.bounds) == 0
        or tokens.bounds[-1] != len(tokens.ids)
        or len(tokens.learned) not in (0, len(tokens.ids))
        or (tokens.weights is not None and len(tokens.weights) != len(tokens.ids))
    ):
        raise Error(f"{folder}: is damaged; delete it, and it is made again")
    return tokens


def map_file(path: Path) -> mmap.mmap | bytes:
    """Its pages are the system's, which takes them back where memory is short."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else b""


def _tokens(content: dict[str, object], about: About) -> Tokens:
    arrays = {name: np.frombuffer(content[name], kind) for name, kind in _TYPES.items()}
    return Tokens(**arrays | {"weights": arrays["weights"] if len(arrays["weights"]) else None}, about=about)
