# SPDX-License-Identifier: Apache-2.0
"""What a bundle keeps of a GGUF file's codes: all of them, as they lie in the file or in a storage that holds the same
numbers."""

from collections.abc import Iterable, Mapping

import numpy as np

from mebp.gguf.blocks import Movable
from mebp.gguf.container import Container, StoredTensor

# What mebpc makes of the numbers where nobody asks for a storage.
_BY_DEFAULT = {"Q4_1": "int4"}
_BY_DEFAULT_OF_TABLES = {"Q8_0": "int8"}
_TABLES = ("token_embd.weight", "output.weight")

_HELD_BY = {"Q4_0": "int4-sym", "Q4_1": "int4", "Q8_0": "int8", "BF16": "bf16", "F16": "f16"}


def is_kept_by_default(container: Container, movable: Mapping[str, Movable]) -> bool:
    """Whether mebpc, which quantises a model's numbers as int4, and as int8 the embedding and the head, finds the very
    codes of the file. Reads them all."""
    whole = {tensor.name for each in movable.values() for tensor in each.tensors}
    return all(tensor.name in whole and _is_found_again(container, tensor)
               for tensor in container.tensors if len(tensor.shape) > 1)  # fmt: skip


def _is_found_again(container: Container, tensor: StoredTensor) -> bool:
    """mebpc (compiler/emit/Quantize.cpp) takes a group's scale from its lowest and highest number, or from its largest,
    so these have to be codes at the end of the range."""
    by_default = _BY_DEFAULT_OF_TABLES if tensor.name in _TABLES else _BY_DEFAULT
    if tensor.kind not in by_default:
        return False
    raw = container.raw(tensor)
    if tensor.kind == "Q8_0":
        largest = np.abs(raw.reshape(-1, 34)[:, 2:].view(np.int8).astype(np.int16)).max(axis=1)
        return bool(np.isin(largest, (0, 127)).all())
    blocks = raw.reshape(-1, 20)
    codes, scales = blocks[:, 4:], blocks[:, :2].copy().view(np.float16)[:, 0]
    low = np.minimum(codes & 15, codes >> 4).min(axis=1)
    high = np.maximum(codes & 15, codes >> 4).max(axis=1)
    return bool((((low == 0) & (high == 15)) | ((scales == 0) | (high == 0))).all())


def kept(container: Container, movable: Mapping[str, Movable]) -> list[str]:
    """A line for each type, in the order in which they appear."""
    matrices = [tensor for tensor in container.tensors if len(tensor.shape) > 1]
    whole = {tensor.name for each in movable.values() for tensor in each.tensors}
    lines = []
    for kind in dict.fromkeys(tensor.kind for tensor in matrices):
        names = [tensor.name for tensor in matrices if tensor.kind == kind]
        apart = [name for name in names if name not in whole] if kind != "F32" else []
        if len(names) > len(apart):
            lines.append(f"{len(names) - len(apart)} of {kind} {_how(kind)}")
        if apart:
            lines.append(f"{len(apart)} of {kind} are stored as f32, the same numbers, for a bundle has them in "
                         f"another order: {listed_few(apart)}")  # fmt: skip
    return lines


def _how(kind: str) -> str:
    if kind in ("F32", "F16", "BF16"):
        return "keep their numbers"
    return f"keep their codes as {_HELD_BY[kind]}" if kind in _HELD_BY else "keep their blocks"


def listed_few(names: Iterable[str]) -> str:
    """The first three, and how many more."""
    every = list(names)
    return ", ".join(every[:3]) + (f" and {len(every) - 3} more" if len(every) > 3 else "")
