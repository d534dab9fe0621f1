# SPDX-License-Identifier: Apache-2.0
"""A file of the reference's log-probabilities, computed once for all completions of a data set.

It is safetensors: `logps`, float32, one completion after the other, and `made_from`, in JSON, what they are of.
"""

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from mebp.errors import Error
from mebp.exporter.checkpoint import StoredTensor, read_header
from mebp.files import open_regular, replaced_file

_ADVICE = "delete it, and the run makes it anew"


@dataclass(frozen=True)
class MadeFrom:
    """What log-probabilities depend on; the names are what an error calls each."""

    bundle: str  # digests
    adapter: str  # that of the reference; empty for the base alone
    data: str
    temperature: float = 1.0


class ReferenceFile:
    """Log-probabilities by completion, mapped: clean pages, no memory of the process' own."""

    def __init__(self, path: Path, made_from: MadeFrom, lengths: Sequence[int]) -> None:
        """lengths: tokens of each completion, in the order of the data.

        Raises mebp.Error where the file is not of this kind, not whole, or of another bundle, adapter or data.
        """
        tensors = read_header(path)
        stored = _made_from(path, tensors)
        for field in fields(made_from):
            if getattr(stored, field.name) != getattr(made_from, field.name):
                raise Error(f"{path}: its log-probabilities are of another {field.name}; {_ADVICE}")
        self._starts = np.concatenate([[0], np.cumsum(lengths)])
        logps = tensors["logps"]
        if (logps.dtype, logps.shape, logps.length) != ("F32", (self._starts[-1],), 4 * self._starts[-1]):
            raise Error(f"{path}: has another number of log-probabilities than the data has tokens; {_ADVICE}")
        self._logps = np.memmap(path, np.dtype("<f4"), "r", logps.offset, logps.shape)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, completion: int) -> np.ndarray:
        """float32 [tokens of the completion], in nats."""
        return self._logps[self._starts[completion] : self._starts[completion + 1]]


def write_reference(path: Path, made_from: MadeFrom, lengths: Sequence[int], logps: Iterable[np.ndarray]) -> None:
    """Writes the file as they come, a float array for each completion; after an error there is none.

    Raises mebp.Error where one is not finite.
    """
    text = json.dumps(asdict(made_from)).encode()
    size = 4 * sum(lengths)
    header = json.dumps(
        {
            "logps": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]},
            "made_from": {"dtype": "U8", "shape": [len(text)], "data_offsets": [size, size + len(text)]},
        }
    ).encode()
    header += b" " * (-len(header) % 8)  # the numbers begin at a multiple of 8
    with replaced_file(path, "free some space, or choose another place") as unfinished, unfinished.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for index, (values, length) in enumerate(zip(logps, lengths, strict=True)):
            if len(values) != length:
                raise ValueError(f"completion {index} has {length} tokens and {len(values)} log-probabilities")
            if not np.isfinite(values).all():
                raise Error(f"the reference's log-probabilities of completion {index} are not finite; check the model")
            file.write(np.ascontiguousarray(values, "<f4"))
        file.write(text)


def _made_from(path: Path, tensors: dict[str, StoredTensor]) -> MadeFrom:
    try:
        stored = tensors["made_from"]
        with open_regular(path, _ADVICE) as file:
            file.seek(stored.offset)
            described = json.loads(file.read(stored.length))
        if "logps" in tensors:
            return MadeFrom(**described)
    except (KeyError, ValueError, TypeError, RecursionError):
        pass
    raise Error(f"{path}: is not a file of reference log-probabilities; {_ADVICE}")
