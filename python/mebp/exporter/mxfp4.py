# SPDX-License-Identifier: Apache-2.0
"""Experts in MXFP4, as gpt-oss is published with them: 32 numbers of four bits share a power of two."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mebp.element_types import ELEMENT_TYPES
from mebp.errors import Error
from mebp.exporter.checkpoint import StoredTensor, read_header
from mebp.files import check_space, open_regular
from mebp.tensor_file import make_header
from mebp.words import say

METHOD = "mxfp4"  # in config.json
_FILE = "experts.safetensors"
_BLOCKS, _SCALES = "_blocks", "_scales"
_BLOCK = 32  # numbers
_ADVICE = "download it again"

_MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
NUMBERS = np.concatenate([_MAGNITUDES, -_MAGNITUDES])
_BYTES = np.arange(256)
_PAIRS = np.stack([NUMBERS[_BYTES & 15], NUMBERS[_BYTES >> 4]], axis=1)  # the low half first
with np.errstate(over="ignore"):
    POWERS = np.ldexp(np.ones(256, np.float32), _BYTES - 127)  # the last of them stands for no number


def unpack(checkpoint: dict[str, StoredTensor], folder: Path, model: str) -> dict[str, StoredTensor]:
    """The checkpoint of `model` with bf16 in place of MXFP4, in a file in `folder`. No number is rounded: bf16 holds
    them all. What is [experts, out, in / 32, 16] bytes becomes [experts, in, out], as transformers loads it.

    Raises Error where blocks and scales do not fit together, or the disk is full.
    """
    packed = {}
    for name, blocks in checkpoint.items():
        target = name.removesuffix(_BLOCKS)
        if target != name and target + _SCALES in checkpoint and blocks.dtype == "U8":
            packed[target] = blocks, checkpoint[target + _SCALES]
    if not packed:
        return checkpoint
    shapes = {name: _shape_of(name, *parts) for name, parts in packed.items()}
    size = sum(map(math.prod, shapes.values())) * ELEMENT_TYPES["bf16"].bytes
    check_space(folder, size, f"{model} with its experts in bf16")
    say(f"note: the experts of {model}, which are MXFP4, are saved beside the graph in bf16, {size / 1e6:,.1f} MB",
          error=True)  # fmt: skip
    with (folder / _FILE).open("wb") as file:
        file.write(make_header(shapes, dict.fromkeys(shapes, "bf16")))
        for name, parts in packed.items():
            for expert in _experts(name, *parts):
                file.write(expert.tobytes())
    rest = {name: each for name, each in checkpoint.items()
            if name.removesuffix(_BLOCKS) not in packed and name.removesuffix(_SCALES) not in packed}  # fmt: skip
    return rest | read_header(folder / _FILE)


def _shape_of(name: str, blocks: StoredTensor, scales: StoredTensor) -> tuple[int, ...]:
    """[experts, in, out]."""
    fits = len(blocks.shape) == 4 and blocks.shape == (*scales.shape, _BLOCK // 2) and scales.dtype == "U8"
    if not fits or (blocks.length, scales.length) != (math.prod(blocks.shape), math.prod(scales.shape)):
        raise Error(
            f"{blocks.file}: the blocks and the scales of '{name}' are {list(blocks.shape)} and {list(scales.shape)}, "
            f"which is not MXFP4 of {_BLOCK} numbers each; {_ADVICE}"
        )
    experts, outputs, groups, _ = blocks.shape
    return experts, groups * _BLOCK, outputs


def _experts(name: str, blocks: StoredTensor, scales: StoredTensor) -> Iterator[np.ndarray]:
    """Of one expert after the other, the upper halves of its numbers in f32 [in, out]."""
    experts, outputs, groups, size = blocks.shape
    with open_regular(blocks.file, _ADVICE) as codes, open_regular(scales.file, _ADVICE) as powers:
        codes.seek(blocks.offset)
        powers.seek(scales.offset)
        for _ in range(experts):
            pairs = np.frombuffer(codes.read(outputs * groups * size), np.uint8).reshape(outputs, groups, size)
            exponents = np.frombuffer(powers.read(outputs * groups), np.uint8).reshape(outputs, groups, 1, 1)
            with np.errstate(over="ignore", invalid="ignore"):
                numbers = _PAIRS[pairs] * POWERS[exponents]
            if not np.isfinite(numbers).all():
                raise Error(f"{scales.file}: '{name}' has a number that is not finite; {_ADVICE}")
            halves = (numbers.view(np.uint32) >> 16).astype(np.uint16)
            yield halves.reshape(outputs, groups * _BLOCK).T
