# SPDX-License-Identifier: Apache-2.0
"""GGUF files whose matrices are of any type: with random codes, or with numbers that are quantised."""

import math
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
from mebp._runtime import quantize_rows

from mebp.gguf.container import Container, StoredTensor

# Of each type: how many numbers a block has, its bytes, and where in it f16 numbers are.
BLOCKS = {
    "F16": (32, 64, range(0, 64, 2)),
    "BF16": (32, 64, ()),
    "Q4_0": (32, 18, (0,)),
    "Q4_1": (32, 20, (0, 2)),
    "Q5_0": (32, 22, (0,)),
    "Q5_1": (32, 24, (0, 2)),
    "Q8_0": (32, 34, (0,)),
    "Q4_K": (256, 144, (0, 2)),
    "Q5_K": (256, 176, (0, 2)),
    "Q6_K": (256, 210, (208,)),
    "MXFP4": (32, 17, ()),
}
_MOST = {"Q4_0": 65504 / 8, "Q8_0": 65504 / 128}  # of scales whose minimum f16 holds

Fill = Callable[[StoredTensor], tuple[str, np.ndarray]]  # a matrix's type, and its bytes [rows, bytes of a row]


def random_blocks(generator: np.random.Generator, kind: str, shape: tuple[int, ...], largest: float) -> np.ndarray:
    """Any codes, with f16 numbers of either sign up to `largest`: small and large ones, zeros and subnormal ones."""
    numbers, size, halves = BLOCKS[kind]
    blocks = generator.integers(0, 256, (math.prod(shape) // numbers, size), np.uint8)
    largest = min(largest, _MOST.get(kind, largest))
    for at in halves:
        drawn = largest * 10 ** generator.uniform(-12, 0, len(blocks)) * generator.choice([-1, 1, 1, 0], len(blocks))
        drawn[generator.random(len(blocks)) < 0.05] = largest
        blocks[:, at : at + 2] = drawn.astype(np.float16)[:, None].view(np.uint8)
    if kind == "MXFP4":
        most = 128 + math.floor(math.log2(largest / 12))
        blocks[:, 0] = generator.integers(0, most, len(blocks)).astype(np.uint8)
    if kind == "BF16":
        values = (largest * generator.standard_normal((len(blocks), numbers)) / 8).astype(np.float32)
        blocks = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return blocks.reshape(math.prod(shape[:-1]), -1)


def quantised(kind: str, values: np.ndarray) -> np.ndarray:
    """uint8 [rows, bytes of a row]."""
    values = np.ascontiguousarray(values.reshape(-1, values.shape[-1]), np.float32)
    if kind in ("Q4_K", "Q5_K", "Q6_K"):
        return quantize_rows(values, kind)
    if kind == "F16":
        return values.astype(np.float16).view(np.uint8)
    return gguf.quantize(values, gguf.GGMLQuantizationType[kind]).view(np.uint8)


def rewrite(container: Container, file: Path, fill: Fill) -> Path:
    """The model of `container` with other matrices."""
    writer = gguf.GGUFWriter(file, container.text("general.architecture"))
    for key, value in container.metadata.items():
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string, bool: writer.add_bool,
               list: writer.add_array}[type(value)]  # fmt: skip
        if key != "general.architecture":
            add(key, value)
    for tensor in container.tensors:
        if len(tensor.shape) == 1:
            writer.add_tensor(tensor.name, container.values(tensor))
            continue
        kind, rows = fill(tensor)
        data = rows.reshape(*tensor.shape[:-1], -1)
        writer.add_tensor(tensor.name, data, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
