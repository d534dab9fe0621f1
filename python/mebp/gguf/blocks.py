# SPDX-License-Identifier: Apache-2.0
"""The blocks of a GGUF file, by transformers' names, as a bundle stores them byte for byte: rows are moved, and whole
blocks of a row, but no number changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.gguf.container import Container, StoredTensor
from mebp.gguf.weights import AS_IT_IS, Place
from mebp.tensor_file import write_bytes

BLOCKS = "blocks.safetensors"
_NUMBERS = {"F16": 32, "BF16": 1, "MXFP4": 32, "Q4_K": 256, "Q5_K": 256, "Q6_K": 256,
            "Q4_0": 32, "Q4_1": 32, "Q5_0": 32, "Q5_1": 32, "Q8_0": 32}  # fmt: skip
# What f16 holds is 65,504 at most, and a bundle has the lowest number of these as a minimum.
_LEAST_CODE = {"Q4_0": 8, "Q8_0": 128}
_LARGEST_HALF = 65504.0


@dataclass(frozen=True)
class Movable:
    """A tensor whose blocks a bundle can have: llama.cpp's tensors that make it up, and where their rows go."""

    kind: str
    place: Place
    tensors: tuple[StoredTensor, ...]


def find_movable(container: Container, places: Mapping[str, Place]) -> dict[str, Movable]:
    """Of the matrices, by transformers' names, those whose blocks can be moved."""
    stored = {tensor.name: tensor for tensor in container.tensors}
    found = {}
    for name, place in places.items():
        tensors = tuple(stored[each] for each in place.names)
        kind = tensors[0].kind
        if kind in _NUMBERS and len(tensors[0].shape) > 1 and all(each.kind == kind for each in tensors):
            movable = Movable(kind, place, tensors)
            if _can_move(container, movable):
                found[name] = movable
    return found


def _can_move(container: Container, movable: Movable) -> bool:
    place, kind, columns = movable.place, movable.kind, movable.tensors[0].shape[-1]
    if place.turned or place.is_filter or place.change not in (None, AS_IT_IS) or columns % _NUMBERS[kind]:
        return False
    if place.columns is not None and _order_of_blocks(place, columns, _NUMBERS[kind]) is None:
        return False
    if kind not in _LEAST_CODE:
        return True
    return all(_holds_minima(kind, container.raw(tensor)) for tensor in movable.tensors)


def _order_of_blocks(place: Place, columns: int, numbers: int) -> np.ndarray | None:
    """Which of the file's blocks each one of a row is; None where they do not stay whole."""
    order = place.columns_here(np.arange(columns)).reshape(-1, numbers)
    whole = (order[:, 0] % numbers == 0).all() and (np.diff(order, axis=1) == 1).all()
    return order[:, 0] // numbers if whole else None


def _holds_minima(kind: str, raw: np.ndarray) -> bool:
    blocks = raw.reshape(-1, 18 if kind == "Q4_0" else 34)
    scales = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    return bool((np.abs(scales) * _LEAST_CODE[kind] <= _LARGEST_HALF).all())


def moved(container: Container, movable: Movable) -> np.ndarray:
    """The blocks in transformers' order, uint8 [..., rows, bytes of a row]."""
    place = movable.place
    rows = place.rows_here([container.raw(each).reshape(*each.shape[:-1], -1) for each in movable.tensors])
    if place.columns is None:
        return rows
    numbers, columns = _NUMBERS[movable.kind], movable.tensors[0].shape[-1]
    order = _order_of_blocks(place, columns, numbers)
    blocks = rows.reshape(*rows.shape[:-1], columns // numbers, -1)
    return blocks[..., order, :].reshape(rows.shape)


def write_blocks(container: Container, movable: Mapping[str, Movable], folder: Path) -> dict[str, str]:
    """Writes BLOCKS; returns each tensor's type, as mebpc calls it."""
    sizes = {name: sum(tensor.length for tensor in each.tensors) for name, each in movable.items()}
    write_bytes(folder / BLOCKS, sizes, (moved(container, each) for each in movable.values()))
    return {name: each.kind.lower() for name, each in movable.items()}
