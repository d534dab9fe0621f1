# SPDX-License-Identifier: Apache-2.0
"""Writes safetensors tensor by tensor, so that a model never has to be in memory, and reads small ones."""

import json
import math
import struct
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import numpy as np

from mebp.element_types import ELEMENT_TYPES, STORED_TYPES
from mebp.errors import Error
from mebp.exporter.checkpoint import StoredTensor, read_header
from mebp.files import open_regular

_BLOCK = 1 << 22


def write_tensors(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    tensors: Iterable[np.ndarray],
    dtypes: str | Mapping[str, str],
    metadata: Mapping[str, str] = MappingProxyType({}),
    advice: str = "use an adapter from a run that did not diverge",
) -> dict[str, float]:
    """Writes float32 `tensors`, which come in the order of `shapes` (name -> shape), rounded to `dtypes`: one for
    all, or one for each name.

    Returns each tensor's rounding: the L2 norm of what was lost by that of the tensor. Raises mebp.Error where a number
    is not finite or is beyond its type.
    """
    if isinstance(dtypes, str):
        dtypes = dict.fromkeys(shapes, dtypes)
    rounding = {}
    with path.open("wb") as file, np.errstate(over="ignore", invalid="ignore"):  # seen below, with the tensor's name
        file.write(make_header(shapes, dtypes, metadata))
        for name, tensor in zip(shapes, tensors, strict=True):
            if not np.isfinite(tensor).all():
                raise Error(f"tensor '{name}' is not finite; {advice}")
            stored, rounded = _round(tensor, dtypes[name])
            if not np.isfinite(rounded).all():
                raise Error(
                    f"tensor '{name}' has {np.abs(tensor).max():g}, which {dtypes[name]} cannot hold; choose f32"
                )
            rounding[name] = relative_norm(rounded - tensor, tensor)
            file.write(stored)
    return rounding


def make_header(
    shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str], metadata: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """What a safetensors file begins with, whose tensors come in the order of `shapes`."""
    header, offset = {"__metadata__": {"format": "pt", **metadata}}, 0
    for name, shape in shapes.items():
        element = ELEMENT_TYPES[dtypes[name]]
        end = offset + element.bytes * int(np.prod(shape))
        header[name] = {"dtype": element.safetensors, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    return _as_header(header)


def _as_header(header: Mapping[str, object]) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors begin at a multiple of 8
    return struct.pack("<Q", len(text)) + text


def write_bytes(path: Path, sizes: Mapping[str, int], tensors: Iterable[np.ndarray]) -> None:
    """Writes uint8 `tensors`, which come in the order of `sizes` (name -> bytes), as vectors."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, size in sizes.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [offset, offset + size]}
        offset += size
    with path.open("wb") as file:
        file.write(_as_header(header))
        for tensor in tensors:
            file.write(np.ascontiguousarray(tensor))


def copy_tensors(path: Path, tensors: Mapping[str, StoredTensor]) -> None:
    """Writes tensors of other files as they lie there, whatever their types."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        end = offset + tensor.length
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    with path.open("wb") as file:
        file.write(_as_header(header))
        for tensor in tensors.values():
            with open_regular(tensor.file, "download it again") as source:
                source.seek(tensor.offset)
                left = tensor.length
                while left and (block := source.read(min(left, _BLOCK))):
                    file.write(block)
                    left -= len(block)
            if left:
                raise Error(f"{tensor.file}: became shorter while it was read; download it again")


def read_tensors(path: Path, advice: str) -> dict[str, np.ndarray]:
    """All tensors of a file, in float32."""
    return dict(each_tensor(path, advice))


def each_tensor(path: Path, advice: str, names: Container[str] | None = None) -> Iterator[tuple[str, np.ndarray]]:
    """Those of `names`, or all, with one in memory at a time."""
    header = read_header(path)
    with open_regular(path, advice) as file:
        for name, tensor in header.items():
            if names is None or name in names:
                yield name, _read(file, name, tensor, advice)


def read_stored(name: str, tensor: StoredTensor, advice: str) -> np.ndarray:
    """One tensor, in float32."""
    with open_regular(tensor.file, advice) as file:
        return _read(file, name, tensor, advice)


def _read(file: BinaryIO, name: str, tensor: StoredTensor, advice: str) -> np.ndarray:
    if tensor.dtype not in STORED_TYPES:
        raise Error(f"{tensor.file}: '{name}' is stored as {tensor.dtype[:20]}; save it in F32, BF16 or F16")
    if tensor.length != math.prod(tensor.shape) * STORED_TYPES[tensor.dtype].bytes:
        raise Error(f"{tensor.file}: '{name}' has {tensor.length} bytes for its shape; {advice}")
    file.seek(tensor.offset)
    return _widen(file.read(tensor.length), tensor.dtype).reshape(tensor.shape)


def _widen(stored: bytes, dtype: str) -> np.ndarray:
    if dtype == "BF16":
        return (np.frombuffer(stored, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.frombuffer(stored, np.float16 if dtype == "F16" else np.float32).astype(np.float32)


def relative_norm(part: np.ndarray, whole: np.ndarray) -> float:
    """The L2 norm of `part` by that of `whole`."""
    norm = float(np.linalg.norm(whole))
    return float(np.linalg.norm(part)) / norm if norm > 0 else 0.0


def _round(tensor: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Contiguous numbers as they are stored, and what they mean in float32."""
    tensor = np.ascontiguousarray(tensor, np.float32)
    if dtype == "f32":
        return tensor, tensor
    if dtype == "f16":
        stored = tensor.astype(np.float16)
        return stored, stored.astype(np.float32)
    # bfloat16, which numpy lacks: the upper half of float32, a tie to the even one.
    bits = tensor.view(np.uint32)
    upper = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return upper.astype(np.uint16), (upper << np.uint32(16)).view(np.float32)
