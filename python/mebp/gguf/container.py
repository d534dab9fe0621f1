# SPDX-License-Identifier: Apache-2.0
"""A GGUF file's metadata and where its tensors lie (GGUF 2 and 3, little-endian).

Nothing of the file is believed before it is checked against the file's size, so a cut or hostile one is refused by a
line that names the place.
"""

import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np

from mebp.errors import Error
from mebp.extras import need_packages
from mebp.files import open_regular
from mebp.gguf import GGUF_SUFFIX

_ADVICE = "download it again"
_MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_ALIGNMENT = 32
_MOST_DIMENSIONS = 4
_LONGEST = 1 << 34  # elements of a tensor


@dataclass(frozen=True)
class StoredTensor:
    """`shape` is row-major, the last extent being a row's; `kind` is what llama.cpp calls its type, as in Q4_1."""

    name: str
    kind: str
    shape: tuple[int, ...]
    offset: int
    length: int


@dataclass(frozen=True)
class Container:
    """`metadata` has scalars, strings and lists."""

    path: Path
    metadata: dict[str, object]
    tensors: list[StoredTensor]

    def number(self, key: str) -> object:
        """A value that has to be there."""
        if key not in self.metadata:
            raise Error(f"{self.path}: lacks '{key}'; {_ADVICE}")
        return self.metadata[key]

    def raw(self, tensor: StoredTensor) -> np.ndarray:
        """Its bytes, one row after another, uint8 [rows, bytes of a row]."""
        with open_regular(self.path, _ADVICE) as file:
            file.seek(tensor.offset)
            content = np.frombuffer(file.read(tensor.length), np.uint8)
        if len(content) < tensor.length:
            raise Error(f"{self.path}: tensor '{tensor.name}' was cut off while it was read; {_ADVICE}")
        return content.reshape(math.prod(tensor.shape[:-1]), -1)

    def values(self, tensor: StoredTensor) -> np.ndarray:
        """What its codes stand for, float32 of its shape."""
        import gguf

        raw, kind = self.raw(tensor), gguf.GGMLQuantizationType[tensor.kind]
        if tensor.kind == "F32":
            values = raw.view(np.float32)
        elif tensor.kind == "F16":
            values = raw.view(np.float16).astype(np.float32)
        else:
            values = gguf.dequantize(raw, kind)
        return np.ascontiguousarray(values, np.float32).reshape(tensor.shape)


def read_container(path: Path) -> Container:
    """Raises mebp.Error where `path` is not a GGUF file, is cut off, or has a type that cannot be read."""
    need_packages("reading GGUF", "gguf", "gguf")
    with open_regular(path, _ADVICE) as file:
        reader = _Reader(path, file)
        if reader.take(4) != _MAGIC:
            raise Error(f"{path}: is not a GGUF file; {_ADVICE}")
        version = reader.scalar("I")
        if version not in (2, 3):
            raise Error(f"{path}: is GGUF version {version}, and 2 and 3 can be read; convert it anew")
        count, keys = reader.scalar("Q"), reader.scalar("Q")
        metadata = dict(reader.metadata(keys))
        entries = [reader.tensor() for _ in range(reader.fits(count, 24))]
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise Error(f"{path}: has alignment {alignment!r}, which is not a power of two; {_ADVICE}")
        start = -(-reader.position // alignment) * alignment
    tensors = [_placed(path, start, reader.size, *entry) for entry in entries]
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise Error(f"{path}: has two tensors of one name; {_ADVICE}")
    return Container(path, metadata, tensors)


def is_gguf(path: Path) -> bool:
    """Whether it is a file that begins as GGUF does, or is called so."""
    if not path.is_file():
        return False
    if path.suffix == GGUF_SUFFIX:
        return True
    with open_regular(path, _ADVICE) as file:
        return file.read(4) == _MAGIC


class _Reader:
    """Takes bytes from the front, and never more than there are."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self.size, self.position = os.fstat(file.fileno()).st_size, 0

    def fits(self, count: int, each: int) -> int:
        """`count`, if so many things of `each` bytes or more can follow."""
        if count * each > self.size - self.position:
            raise Error(f"{self._path}: cut off ({self.size} bytes do not hold its header); {_ADVICE}")
        return count

    def take(self, count: int) -> bytes:
        self.position += self.fits(count, 1)
        return self._file.read(count)

    def scalar(self, code: str) -> int | float | bool:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def text(self) -> str:
        return self.take(self.scalar("Q")).decode("utf-8", "replace")

    def metadata(self, count: int) -> Iterator[tuple[str, object]]:
        for _ in range(self.fits(count, 13)):
            yield self.text(), self._value(self.scalar("I"))

    def _value(self, kind: int) -> object:
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.scalar(self._code(kind))
        inner, count = self.scalar("I"), self.scalar("Q")
        if inner == _STRING:
            return [self.text() for _ in range(self.fits(count, 8))]
        code = self._code(inner)  # arrays of arrays are in no model
        size = struct.calcsize(f"<{code}")
        return list(struct.unpack(f"<{count}{code}", self.take(self.fits(count, size) * size)))

    def _code(self, kind: int) -> str:
        if kind not in _SCALARS:
            raise Error(f"{self._path}: has metadata of unknown type {kind}; {_ADVICE}")
        return _SCALARS[kind]

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name, dimensions = self.text(), self.scalar("I")
        if not 1 <= dimensions <= _MOST_DIMENSIONS:
            raise Error(f"{self._path}: tensor '{name}' has {dimensions} dimensions; {_ADVICE}")
        shape = tuple(self.scalar("Q") for _ in range(dimensions))
        return name, shape[::-1], self.scalar("I"), self.scalar("Q")


@cache
def _readable(kind: int) -> tuple[str, int, int] | None:
    """The name of a type, the elements of a block and its bytes; None where nothing here can read it."""
    import gguf

    try:
        found = gguf.GGMLQuantizationType(kind)
        block, size = gguf.GGML_QUANT_SIZES[found]
        gguf.dequantize(np.zeros((1, size), np.uint8), found)
    except (ValueError, NotImplementedError, KeyError):
        return None
    return found.name, block, size


def _placed(path: Path, start: int, size: int, name: str, shape: tuple[int, ...], kind: int, at: int) -> StoredTensor:
    readable = _readable(kind)
    if readable is None:
        raise Error(f"{path}: tensor '{name}' has the unknown type {kind}; convert the model to a type such as Q8_0")
    type_name, block, bytes_ = readable
    elements = math.prod(shape)
    if elements > _LONGEST or shape[-1] % block:
        raise Error(f"{path}: tensor '{name}' has the impossible shape {list(shape)}; {_ADVICE}")
    length = elements // block * bytes_
    if start + at + length > size:
        raise Error(f"{path}: cut off ({size} bytes where tensor '{name}' ends at {start + at + length}); {_ADVICE}")
    return StoredTensor(name, type_name, shape, start + at, length)
