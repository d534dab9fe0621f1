# SPDX-License-Identifier: Apache-2.0
"""A file of the reference's log-probabilities, each computed once.

It is safetensors: `logps`, float32, one completion after the other, NaN where it was not computed yet; and `made_from`,
in JSON, what they are of.
"""

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from mebp.errors import Error, translate_errors
from mebp.exporter.checkpoint import StoredTensor, read_header
from mebp.files import make_parent, open_regular, replaced_file

_ADVICE = "delete it, and the run makes it anew"
_LARGEST_ORIGIN = 1 << 16  # bytes of what it was made from, which has some hundreds


@dataclass(frozen=True)
class MadeFrom:
    """What log-probabilities depend on; the names are what an error calls each."""

    bundle: str  # digests
    adapter: str  # that of the reference; empty for the base alone
    data: str
    temperature: float = 1.0


class ReferenceFile:
    """Log-probabilities by completion, in a mapped file: what is not there yet is computed when it is asked for, and
    stays. Two runs may fill one file, for they write the same."""

    def __init__(self, path: Path, made_from: MadeFrom, lengths: Sequence[int]) -> None:
        """lengths: tokens of each completion, in the order of the data.

        Raises mebp.Error where the file is not of this kind, not whole, or of another bundle, adapter or data.
        """
        tensors = read_header(path)
        stored = _made_from(path, tensors)
        for field in fields(made_from):
            if getattr(stored, field.name) != getattr(made_from, field.name):
                raise Error(f"{path}: its log-probabilities are of another {field.name}; {_ADVICE}")
        self._path = path
        self._starts = np.concatenate([[0], np.cumsum(lengths)])
        logps = tensors["logps"]
        if (logps.dtype, logps.shape, logps.length) != ("F32", (self._starts[-1],), 4 * self._starts[-1]):
            raise Error(f"{path}: has another number of log-probabilities than the data has tokens; {_ADVICE}")
        with translate_errors(f"{path}: cannot be written", _ADVICE):
            self._logps = np.memmap(path, np.dtype("<f4"), "r+", logps.offset, logps.shape)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def get(self, completion: int, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """float32 [tokens of the completion], in nats; `compute` gives those that are not there yet.

        Raises mebp.Error where these, or those that are there, are not finite.
        """
        place = self._logps[self._starts[completion] : self._starts[completion + 1]]
        if np.isnan(place).any():
            computed = np.asarray(compute(), np.float32)
            if not np.isfinite(computed).all():
                raise Error("the reference's log-probabilities are not finite; check the model")
            place[:] = computed
        elif not np.isfinite(place).all():
            raise Error(f"{self._path}: has a log-probability that is not finite; {_ADVICE}")
        return place


def open_reference(path: Path, made_from: MadeFrom, lengths: Sequence[int]) -> ReferenceFile:
    """The file at `path`; where there is none, a new one that has nothing yet."""
    if not path.exists():
        make_parent(path, "choose another place")
        with replaced_file(path, "free some space, or choose another place") as unfinished:
            unfinished.write_bytes(_header(made_from, sum(lengths)))
            with unfinished.open("ab") as file:
                for length in lengths:
                    file.write(np.full(length, np.nan, "<f4"))
                file.write(_text(made_from))
    return ReferenceFile(path, made_from, lengths)


def _text(made_from: MadeFrom) -> bytes:
    return json.dumps(asdict(made_from)).encode()


def _header(made_from: MadeFrom, tokens: int) -> bytes:
    size, length = 4 * tokens, len(_text(made_from))
    header = json.dumps(
        {
            "logps": {"dtype": "F32", "shape": [tokens], "data_offsets": [0, size]},
            "made_from": {"dtype": "U8", "shape": [length], "data_offsets": [size, size + length]},
        }
    ).encode()
    header += b" " * (-len(header) % 8)  # the numbers begin at a multiple of 8
    return struct.pack("<Q", len(header)) + header


def _made_from(path: Path, tensors: dict[str, StoredTensor]) -> MadeFrom:
    try:
        stored = tensors["made_from"]
        if stored.length > _LARGEST_ORIGIN:
            raise ValueError
        with open_regular(path, _ADVICE) as file:
            file.seek(stored.offset)
            described = json.loads(file.read(stored.length))
        if "logps" in tensors:
            return MadeFrom(**described)
    except (KeyError, ValueError, TypeError, RecursionError):
        pass
    raise Error(f"{path}: is not a file of reference log-probabilities; {_ADVICE}")
