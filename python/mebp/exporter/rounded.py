# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in FP8 with a scale for each block, and in NF4 of bitsandbytes, as these are dequantised elsewhere."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mebp.element_types import ELEMENT_TYPES
from mebp.errors import Error
from mebp.exporter.checkpoint import StoredTensor, read_header
from mebp.exporter.losses import loss_as_int8
from mebp.files import check_space, open_regular
from mebp.tensor_file import read_stored, write_tensors
from mebp.words import say

FP8, BITSANDBYTES = "fp8", "bitsandbytes"  # in config.json
_FILE = "dequantised.safetensors"
_WEIGHT, _INVERSE, _STATE = ".weight", ".weight_scale_inv", ".weight.quant_state.bitsandbytes__nf4"
_ADVICE = "download it again"
_INSTEAD = "export the full-precision model instead, mebpc quantises it"
_TYPES = {each.torch: name for name, each in ELEMENT_TYPES.items()}


def _float8() -> np.ndarray:
    """The 256 numbers of e4m3fn."""
    codes = np.arange(256)
    exponents, fractions = codes >> 3 & 15, codes & 7
    numbers = np.where(exponents == 0, fractions / 8 * 2.0**-6, (1 + fractions / 8) * 2.0 ** (exponents - 7))
    numbers[codes & 127 == 127] = np.nan
    return np.where(codes & 128, -numbers, numbers).astype(np.float32)


_NUMBERS = _float8()


def check_method(quantization: Mapping[str, object], place: Path) -> None:
    """Raises Error for a form of FP8 or bitsandbytes that is not read."""
    if quantization.get("quant_method") == FP8:
        block = quantization.get("weight_block_size")
        if not isinstance(block, list) or len(block) != 2 or any(type(n) is not int or n < 1 for n in block):
            raise Error(f"{place}: already quantised (fp8 without weight_block_size); {_INSTEAD}")
    elif quantization.get("load_in_8bit") or quantization.get("bnb_4bit_quant_type") != "nf4":
        raise Error(f"{place}: already quantised (bitsandbytes, and not in nf4); {_INSTEAD}")


def unpack(
    checkpoint: dict[str, StoredTensor], quantization: Mapping[str, Any], folder: Path, model: str
) -> dict[str, StoredTensor]:
    """The checkpoint of `model` with its codes dequantised to bf16, in a file in `folder`; NF4 that was made of another
    type has that type. Raises Error where tensors do not fit together, or the disk is full."""
    is_fp8 = quantization.get("quant_method") == FP8
    end = _INVERSE if is_fp8 else _STATE
    layers = [name.removesuffix(end) for name in checkpoint if name.endswith(end)]
    if not layers:
        return checkpoint
    states = {} if is_fp8 else {layer: _state(layer, checkpoint) for layer in layers}
    shapes, types = {}, {}
    for layer in layers:
        name = layer + _WEIGHT
        stored = _need(checkpoint, name)
        shapes[name] = stored.shape if is_fp8 else tuple(states[layer]["shape"])
        types[name] = "bf16" if is_fp8 else _TYPES[states[layer]["dtype"]]
    size = sum(ELEMENT_TYPES[types[name]].bytes * math.prod(shape) for name, shape in shapes.items())
    check_space(folder, size, f"{model} without its codes")
    say(f"note: the weights of {model}, which are {'FP8' if is_fp8 else 'NF4'}, are saved beside the graph as they are "
        f"dequantised, {size / 1e6:,.1f} MB", error=True)  # fmt: skip
    numbers = _all_fp8(layers, checkpoint, quantization) if is_fp8 else _all_nf4(states, checkpoint)
    losses: list[float] = []
    write_tensors(folder / _FILE, shapes, _measured(numbers, losses), types, advice=_ADVICE)
    say(f"note: a bundle keeps all of them, and compiled with --weights int8 it loses at most {max(losses):.2%} of a "
        "matrix's norm", error=True)  # fmt: skip
    parts = tuple(layer + _WEIGHT for layer in layers)
    taken = {*parts, *(layer + _INVERSE for layer in layers)}
    rest = {name: each for name, each in checkpoint.items()
            if name not in taken and name.rsplit(".weight.", 1)[0] + _WEIGHT not in shapes}  # fmt: skip
    return rest | read_header(folder / _FILE)


def _measured(numbers: Iterator[np.ndarray], losses: list[float]) -> Iterator[np.ndarray]:
    """Adds what int8 would lose of each."""
    for each in numbers:
        losses.append(loss_as_int8(each))
        yield each


def _need(checkpoint: Mapping[str, StoredTensor], name: str) -> StoredTensor:
    if name not in checkpoint:
        raise Error(f"{next(iter(checkpoint.values())).file.parent}: no tensor '{name}' beside its scales; {_ADVICE}")
    return checkpoint[name]


def _bytes(tensor: StoredTensor) -> np.ndarray:
    with open_regular(tensor.file, _ADVICE) as file:
        file.seek(tensor.offset)
        return np.frombuffer(file.read(tensor.length), np.uint8)


def _all_fp8(
    layers: list[str], checkpoint: Mapping[str, StoredTensor], quantization: Mapping[str, Any]
) -> Iterator[np.ndarray]:
    for layer in layers:
        yield _of_fp8(layer, checkpoint, quantization["weight_block_size"])


def _of_fp8(layer: str, checkpoint: Mapping[str, StoredTensor], block: list[int]) -> np.ndarray:
    codes, scales = checkpoint[layer + _WEIGHT], checkpoint[layer + _INVERSE]
    fits = codes.dtype == "F8_E4M3" and len(codes.shape) == 2 and codes.length == math.prod(codes.shape)
    if not fits or scales.shape != tuple(-(-n // size) for n, size in zip(codes.shape, block, strict=True)):
        raise Error(f"{codes.file}: '{layer}' is {codes.dtype} {list(codes.shape)} with scales {list(scales.shape)}, "
                    f"which is not FP8 in blocks of {block[0]} x {block[1]}; {_ADVICE}")  # fmt: skip
    rows, columns = codes.shape
    factors = read_stored(layer + _INVERSE, scales, _ADVICE).repeat(block[0], 0).repeat(block[1], 1)[:rows, :columns]
    return _NUMBERS[_bytes(codes)].reshape(codes.shape) * factors


def _state(layer: str, checkpoint: Mapping[str, StoredTensor]) -> dict[str, Any]:
    """What bitsandbytes keeps of a layer beside its tensors."""
    tensor = checkpoint[layer + _STATE]
    try:
        state = json.loads(_bytes(tensor).tobytes())
        fits = (all(type(n) is int and n > 0 for n in (*state["shape"], state["blocksize"]))
                and state["dtype"] in _TYPES and len(state["shape"]) == 2)  # fmt: skip
    except (ValueError, KeyError, TypeError, RecursionError):
        fits = False
    if not fits:
        raise Error(f"{tensor.file}: '{layer}' has no statistics of NF4 that can be read; {_ADVICE}")
    return state


def _all_nf4(states: Mapping[str, dict[str, Any]], checkpoint: Mapping[str, StoredTensor]) -> Iterator[np.ndarray]:
    for layer, state in states.items():
        yield _of_nf4(layer, state, checkpoint)


def _of_nf4(layer: str, state: Mapping[str, Any], checkpoint: Mapping[str, StoredTensor]) -> np.ndarray:
    name, count = layer + _WEIGHT, math.prod(state["shape"])
    pairs, largest = _bytes(checkpoint[name]), _need(checkpoint, f"{name}.absmax")
    table = read_stored(name, _need(checkpoint, f"{name}.quant_map"), _ADVICE).ravel()
    blocks = -(-count // state["blocksize"])
    if len(pairs) != (count + 1) // 2 or math.prod(largest.shape) != blocks or len(table) != 16:
        raise Error(f"{largest.file}: '{layer}' has codes and scales that are not NF4 of {state['shape']}; {_ADVICE}")
    if largest.dtype == "U8":
        scales = _nested(name, state, checkpoint, _bytes(largest))
    else:
        scales = read_stored(f"{name}.absmax", largest, _ADVICE).ravel()
    numbers = table[np.stack([pairs >> 4, pairs & 15], axis=1)].ravel()[:count]  # the high half first
    return (numbers * scales.repeat(state["blocksize"])[:count]).reshape(state["shape"])


def _nested(
    name: str, state: Mapping[str, Any], checkpoint: Mapping[str, StoredTensor], codes: np.ndarray
) -> np.ndarray:
    """Scales that are quantised themselves."""
    outer = read_stored(name, _need(checkpoint, f"{name}.nested_absmax"), _ADVICE).ravel()
    table = read_stored(name, _need(checkpoint, f"{name}.nested_quant_map"), _ADVICE).ravel()
    size, offset = state.get("nested_blocksize"), state.get("nested_offset")
    fits = isinstance(size, int) and size > 0 and isinstance(offset, float) and len(table) == 256
    if not fits or len(outer) != -(-len(codes) // size):
        raise Error(f"{checkpoint[name].file}: '{name}' has nested statistics that do not fit; {_ADVICE}")
    return table[codes] * outer.repeat(size)[: len(codes)] + np.float32(offset)
