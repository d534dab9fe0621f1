# SPDX-License-Identifier: Apache-2.0
"""A GGUF file's metadata and where its tensors lie (GGUF 2 and 3, little-endian).

Nothing of the file is believed before it is checked against the file's size, so a cut or hostile one is refused by a
line that names the place.
"""

import math
import os
import re
import reprlib
import struct
from collections.abc import Callable
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
# What a header may ask for; those of published models have less than a quarter of each.
_MOST_KEYS, _MOST_TENSORS, _MOST_ELEMENTS = 1 << 16, 1 << 18, 1 << 23
_LONGEST_NAME = 256  # bytes
_LONGEST_TEXT = 1 << 27
_LARGEST = (1 << 31) - 1
# Those whose numbers a bundle can have, as llama.cpp calls them.
TYPES = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "MXFP4")
_PART = re.compile(r"-[0-9]{5}-of-([0-9]{5})(?=\.gguf$)")


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
    """`metadata` has scalars, strings and lists. The methods that read one raise mebp.Error, with the key, where it is
    of another type, and return None where there is none, unless it is `needed`."""

    path: Path
    metadata: dict[str, object]
    tensors: list[StoredTensor]

    def text(self, key: str, needed: bool = False) -> str | None:
        return self._value(key, needed, "a text", lambda value: isinstance(value, str))

    def whole(self, key: str, least: int = 0, most: int = _LARGEST, needed: bool = False) -> int | None:
        return self._value(
            key, needed, f"a whole number from {least} to {most}", lambda value: _is_whole(value, least, most)
        )

    def real(self, key: str, least: float = -math.inf, needed: bool = False) -> float | None:
        what = "a number" if least == -math.inf else f"a number from {least:g} on"
        found = self._value(key, needed, what, lambda value: _is_real(value, least))
        return None if found is None else float(found)

    def flag(self, key: str) -> bool | None:
        return self._value(key, False, "true or false", lambda value: isinstance(value, bool))

    def texts(self, key: str, needed: bool = False) -> list[str] | None:
        """A list; one of GGUF is of one type."""
        return self._value(key, needed, "a list of texts", lambda value: _is_list(value, str))

    def wholes(self, key: str) -> list[int] | None:
        return self._value(key, False, "a list of whole numbers", lambda value: _is_list(value, int))

    def flags(self, key: str, needed: bool = False) -> list[bool] | None:
        return self._value(key, needed, "a list of true or false", lambda value: _is_list(value, bool))

    def reals(self, key: str, needed: bool = False) -> list[float] | None:
        return self._value(key, needed, "a list of numbers", _are_real)

    def _value(self, key: str, needed: bool, what: str, is_right: Callable[[object], bool]) -> object:
        if key not in self.metadata:
            if needed:
                raise Error(f"{self.path}: lacks '{key}'; {_ADVICE}")
            return None
        value = self.metadata[key]
        if not is_right(value):
            raise Error(f"{self.path}: '{key}' is {reprlib.repr(value)}, which is not {what}; {_ADVICE}")
        return value

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
            with np.errstate(all="ignore"):  # seen below, with the tensor's name
                values = gguf.dequantize(raw, kind)
        if not np.isfinite(values).all():
            raise Error(f"{self.path}: tensor '{tensor.name}' has values that are not finite; {_ADVICE}")
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
        metadata = reader.metadata(keys)
        _check_whole(path, metadata)
        entries = [reader.tensor() for _ in range(reader.fits(count, 24, _MOST_TENSORS))]
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise Error(f"{path}: 'general.alignment' is {reprlib.repr(alignment)}, which is not a power of two; "
                        f"{_ADVICE}")  # fmt: skip
        start = -(-reader.position // alignment) * alignment
    tensors = [_placed(path, start, reader.size, *entry) for entry in entries]
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise Error(f"{path}: has two tensors of one name; {_ADVICE}")
    _check_apart(path, tensors)
    return Container(path, metadata, tensors)


def _check_whole(path: Path, metadata: dict[str, object]) -> None:
    """Raises mebp.Error for one of several files that make a model."""
    count = metadata.get("split.count", 1)
    if count in (0, 1):
        return
    first = _PART.sub(r"-00001-of-\1", path.name)
    raise Error(f"{path}: is one of {reprlib.repr(count)} files that make a model; join them with llama.cpp's "
                f"llama-gguf-split --merge {first} NEW{GGUF_SUFFIX}, and give the new file")  # fmt: skip


def is_gguf(path: Path) -> bool:
    """Whether it is a file that begins as GGUF does, or is called so."""
    if not path.is_file():
        return False
    if path.suffix == GGUF_SUFFIX:
        return True
    with open_regular(path, _ADVICE) as file:
        return file.read(4) == _MAGIC


class _Reader:
    """Takes bytes from the front, and never more than there are, or than a model has."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self.size, self.position = os.fstat(file.fileno()).st_size, 0
        self._elements = 0  # of all lists

    def fits(self, count: int, each: int, most: int) -> int:
        """`count`, if so many things of `each` bytes or more can follow."""
        if count * each > self.size - self.position:
            raise Error(f"{self._path}: cut off ({self.size} bytes do not hold its header); {_ADVICE}")
        if count > most:
            raise Error(f"{self._path}: its header promises {count:,} entries or bytes where {most:,} are read at "
                        f"most; {_ADVICE}")  # fmt: skip
        return count

    def take(self, count: int) -> bytes:
        self.position += self.fits(count, 1, _LONGEST_TEXT)
        return self._file.read(count)

    def scalar(self, code: str) -> int | float | bool:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def text(self) -> str:
        return self.take(self.scalar("Q")).decode("utf-8", "replace")

    def name(self) -> str:
        length = self.scalar("Q")
        if length > _LONGEST_NAME:
            raise Error(f"{self._path}: has a name of {length} bytes at byte {self.position}, and {_LONGEST_NAME} are "
                        f"read at most; {_ADVICE}")  # fmt: skip
        return self.take(length).decode("utf-8", "replace")

    def metadata(self, count: int) -> dict[str, object]:
        found: dict[str, object] = {}
        for _ in range(self.fits(count, 13, _MOST_KEYS)):
            key = self.name()
            if key in found:
                raise Error(f"{self._path}: has '{key}' twice; {_ADVICE}")
            found[key] = self._value(key, self.scalar("I"))
        return found

    def _value(self, key: str, kind: int) -> object:
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.scalar(self._code(key, kind))
        inner, count = self.scalar("I"), self.scalar("Q")
        if inner == _STRING:
            return [self.text() for _ in range(self._fits_in_list(count, 8))]
        code = self._code(key, inner)  # arrays of arrays are in no model
        size = struct.calcsize(f"<{code}")
        return list(struct.unpack(f"<{count}{code}", self.take(self._fits_in_list(count, size) * size)))

    def _fits_in_list(self, count: int, each: int) -> int:
        self._elements += count
        self.fits(self._elements, 0, _MOST_ELEMENTS)
        return self.fits(count, each, _MOST_ELEMENTS)

    def _code(self, key: str, kind: int) -> str:
        if kind not in _SCALARS:
            raise Error(f"{self._path}: '{key}' has the unknown type {kind}; {_ADVICE}")
        return _SCALARS[kind]

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name, dimensions = self.name(), self.scalar("I")
        if not 1 <= dimensions <= _MOST_DIMENSIONS:
            raise Error(f"{self._path}: tensor '{name}' has {dimensions} dimensions; {_ADVICE}")
        shape = tuple(self.scalar("Q") for _ in range(dimensions))
        return name, shape[::-1], self.scalar("I"), self.scalar("Q")


@cache
def _type(kind: int) -> tuple[str, int, int]:
    """The name of a type, the elements of a block and its bytes."""
    import gguf

    try:
        found = gguf.GGMLQuantizationType(kind)
        return found.name, *gguf.GGML_QUANT_SIZES[found]
    except (ValueError, KeyError):
        return f"of the unknown type {kind}", 1, 1


def _placed(path: Path, start: int, size: int, name: str, shape: tuple[int, ...], kind: int, at: int) -> StoredTensor:
    type_name, block, bytes_ = _type(kind)
    if type_name not in TYPES:
        known = ", ".join(TYPES[:-1])
        raise Error(f"{path}: tensor '{name}' is {type_name}, which cannot be trained on; take a file of {known} or "
                    f"{TYPES[-1]}")  # fmt: skip
    elements = math.prod(shape)
    if not 0 < elements <= _LONGEST or shape[-1] % block:
        raise Error(f"{path}: tensor '{name}' has the impossible shape {list(shape)}; {_ADVICE}")
    length = elements // block * bytes_
    if start + at + length > size:
        raise Error(f"{path}: cut off ({size} bytes where tensor '{name}' ends at {start + at + length}); {_ADVICE}")
    return StoredTensor(name, type_name, shape, start + at, length)


def _check_apart(path: Path, tensors: list[StoredTensor]) -> None:
    """Else a small file could hold one tensor under a thousand names."""
    end, before = 0, ""
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        if tensor.offset < end:
            raise Error(f"{path}: tensors '{before}' and '{tensor.name}' lie in the same bytes; {_ADVICE}")
        end, before = tensor.offset + tensor.length, tensor.name


def _is_whole(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _is_real(value: object, least: float) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= least


def _are_real(value: object) -> bool:
    return isinstance(value, list) and all(_is_real(each, -math.inf) for each in value)


def _is_list(value: object, kind: type) -> bool:
    return isinstance(value, list) and (not value or type(value[0]) is kind)
