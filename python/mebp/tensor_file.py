# SPDX-License-Identifier: Apache-2.0
"""Writes safetensors tensor by tensor, so that a model never has to be in memory."""

import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from mebp.element_types import ELEMENT_TYPES
from mebp.errors import Error


def write_tensors(
    path: Path, shapes: Mapping[str, tuple[int, ...]], tensors: Iterable[np.ndarray], dtype: str
) -> dict[str, float]:
    """Writes float32 `tensors`, which come in the order of `shapes` (name -> shape), rounded to `dtype`.

    Returns each tensor's rounding: the L2 norm of what was lost by that of the tensor. Raises mebp.Error where a number
    is not finite or is beyond `dtype`.
    """
    element = ELEMENT_TYPES[dtype]
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        end = offset + element.bytes * int(np.prod(shape))
        header[name] = {"dtype": element.safetensors, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors begin at a multiple of 8
    rounding = {}
    with path.open("wb") as file, np.errstate(over="ignore", invalid="ignore"):  # seen below, with the tensor's name
        file.write(struct.pack("<Q", len(text)) + text)
        for name, tensor in zip(shapes, tensors, strict=True):
            if not np.isfinite(tensor).all():
                raise Error(f"tensor '{name}' is not finite; use an adapter from a run that did not diverge")
            stored, rounded = _round(tensor, dtype)
            if not np.isfinite(rounded).all():
                raise Error(f"tensor '{name}' has {np.abs(tensor).max():g}, which {dtype} cannot hold; choose f32")
            rounding[name] = relative_norm(rounded - tensor, tensor)
            file.write(stored)
    return rounding


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
