# SPDX-License-Identifier: Apache-2.0
"""MLX's folders of 4 and 8 bits: the numbers that they mean, and what a bundle keeps of these."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.errors import Error
from mebp.exporter.blocks import with_blocks
from mebp.exporter.checkpoint import StoredTensor, read_header
from mebp.exporter.mxfp4 import NUMBERS, POWERS
from mebp.files import check_space, open_regular
from mebp.gguf.blocks import BLOCKS
from mebp.gguf.codes import listed_few
from mebp.tensor_file import read_stored, write_bytes, write_tensors
from mebp.words import say

_FILE = "dequantised.safetensors"
_WEIGHT, _SCALES, _BIASES = ".weight", ".scales", ".biases"
_AFFINE, _MXFP4 = "affine", "mxfp4"
_GROUPS = (32, 64, 128)
_BLOCK = 32  # columns
# By bits and mode: what a bundle stores, and mebpc's name for the blocks that it is made of, and their bytes.
_STORAGES = {(4, _AFFINE): "int4", (8, _AFFINE): "int8", (4, _MXFP4): "mxfp4"}
_TYPES = {(4, _AFFINE): "q4_1", (8, _AFFINE): "int8", (4, _MXFP4): "mxfp4"}
_BYTES = {(4, _AFFINE): 20, (8, _AFFINE): 36, (4, _MXFP4): 17}
_ADVICE = "download it again"
_INSTEAD = "export the full-precision model instead, mebpc quantises it"


@dataclass(frozen=True)
class Form:
    """How a layer is stored: `bits` a code, `group` columns with one scale."""

    bits: int
    group: int
    mode: str


@dataclass(frozen=True)
class Packed:
    """The three tensors of one layer; MXFP4 has no biases."""

    form: Form
    codes: StoredTensor
    scales: StoredTensor
    biases: StoredTensor | None

    @property
    def shape(self) -> tuple[int, ...]:
        """[..., out, in]."""
        return (*self.scales.shape[:-1], self.scales.shape[-1] * self.form.group)


def check_forms(quantization: Mapping[str, object], place: Path) -> None:
    """Raises Error where a layer has a form that is not read. `quantization` is what config.json says."""
    _form(quantization, place)
    for layer, entry in quantization.items():
        if isinstance(entry, dict):
            _form(entry, place, f"{layer[:80]} is ")


def _form(entry: Mapping[str, object], place: Path, layer: str = "the weights are ") -> Form:
    bits, group, mode = (entry.get(name, other) for name, other in (("bits", 0), ("group_size", 0), ("mode", _AFFINE)))
    if mode == _MXFP4 and (bits, group) == (4, 32):
        return Form(4, 32, _MXFP4)
    if mode != _AFFINE:
        raise Error(f"{place}: {layer}{str(mode)[:20]} of MLX, and affine and mxfp4 are read; {_INSTEAD}")
    if (bits, mode) not in _STORAGES:
        raise Error(f"{place}: {layer}of {str(bits)[:20]} bits by MLX, and 4 and 8 are read; {_INSTEAD}")
    if group not in _GROUPS:
        raise Error(f"{place}: {layer}in groups of {str(group)[:20]} by MLX, and 32, 64 and 128 are read; {_INSTEAD}")
    return Form(bits, group, _AFFINE)


def unpack(
    checkpoint: dict[str, StoredTensor], quantization: Mapping[str, object], folder: Path, model: str
) -> dict[str, StoredTensor]:
    """The checkpoint of `model` with f32 in place of codes, in a file in `folder`, and these as blocks beside it; says
    which matrices a bundle stores in f32. Raises Error where codes and scales do not fit together, or the disk is
    full."""
    packed = packed_layers(checkpoint, quantization)
    if not packed:
        return checkpoint
    shapes = {layer + _WEIGHT: each.shape for layer, each in packed.items()}
    size = sum(map(math.prod, shapes.values())) * 4
    check_space(folder, size, f"{model} in f32")
    say(f"note: the weights of {model}, which MLX quantised, are saved beside the graph in f32, {size / 1e6:,.1f} MB",
          error=True)  # fmt: skip
    write_tensors(folder / _FILE, shapes, (dequantise(*each) for each in packed.items()), "f32", advice=_ADVICE)
    types = {layer + _WEIGHT: _TYPES[each.form.bits, each.form.mode]
             for layer, each in packed.items() if _held(layer, each)}  # fmt: skip
    sizes = {layer + _WEIGHT: math.prod(each.shape) // _BLOCK * _BYTES[each.form.bits, each.form.mode]
             for layer, each in packed.items() if layer + _WEIGHT in types}  # fmt: skip
    check_space(folder, sum(sizes.values()), f"the codes of {model}")
    write_bytes(folder / BLOCKS, sizes, _blocks(packed, types))
    _say_kept(packed, types)
    taken = {layer + end for layer in packed for end in (_WEIGHT, _SCALES, _BIASES)}
    rest = {name: each for name, each in checkpoint.items() if name not in taken}
    return rest | with_blocks(read_header(folder / _FILE), types, folder / BLOCKS)


def packed_layers(checkpoint: Mapping[str, StoredTensor], quantization: Mapping[str, object]) -> dict[str, Packed]:
    """By the layers' names, those with codes; raises Error where their tensors do not fit together."""
    found = {}
    for name, scales in checkpoint.items():
        layer = name.removesuffix(_SCALES)
        codes = checkpoint.get(layer + _WEIGHT)
        if layer == name or codes is None or codes.dtype != "U32":
            continue
        own = quantization.get(layer)
        form = _form(own if isinstance(own, dict) else quantization, codes.file.parent)
        each = Packed(form, codes, scales, checkpoint.get(layer + _BIASES))
        _check(layer, each)
        found[layer] = each
    return found


def _check(layer: str, each: Packed) -> None:
    form, codes, scales, biases = each.form, each.codes, each.scales, each.biases
    width = each.shape[-1] * form.bits // 32
    fits = len(scales.shape) > 1 and codes.shape == (*scales.shape[:-1], width)
    if form.mode == _MXFP4:
        fits = fits and scales.dtype == "U8" and scales.length == math.prod(scales.shape) and biases is None
    else:
        fits = fits and biases is not None and (biases.shape, biases.dtype) == (scales.shape, scales.dtype)
    if not fits or codes.length != 4 * math.prod(codes.shape):
        raise Error(
            f"{codes.file}: '{layer}' has codes {list(codes.shape)} and scales {list(scales.shape)}, which do not make "
            f"{form.bits} bits in groups of {form.group}; {_ADVICE}"
        )


def _bytes(tensor: StoredTensor) -> np.ndarray:
    with open_regular(tensor.file, _ADVICE) as file:
        file.seek(tensor.offset)
        found = np.frombuffer(file.read(tensor.length), np.uint8)
    return found.reshape(tensor.shape) if tensor.dtype == "U8" else found


def _codes(each: Packed) -> np.ndarray:
    """uint8, a code each, of one row after the other."""
    stored = _bytes(each.codes)
    return stored if each.form.bits == 8 else np.stack([stored & 15, stored >> 4], axis=1)  # the low half first


def dequantise(layer: str, each: Packed) -> np.ndarray:
    """f32 [..., out, in]: scale times code, plus the group's bias."""
    codes = _codes(each).reshape(*each.scales.shape, each.form.group)
    if each.form.mode == _MXFP4:
        powers = _bytes(each.scales)
        with np.errstate(over="ignore", invalid="ignore"):
            return (NUMBERS[codes] * POWERS[powers][..., None]).reshape(each.shape)
    assert each.biases is not None
    scales = read_stored(layer + _SCALES, each.scales, _ADVICE)[..., None]
    biases = read_stored(layer + _BIASES, each.biases, _ADVICE)[..., None]
    return (codes.astype(np.float32) * scales + biases).reshape(each.shape)


def _blocks(packed: Mapping[str, Packed], types: Mapping[str, str]) -> Iterator[np.ndarray]:
    for layer, each in packed.items():
        if layer + _WEIGHT in types:
            yield as_blocks(layer, each)


def _held(layer: str, each: Packed) -> bool:
    """Whether f16 has the scales and biases, of which a bundle has one for 32 columns."""
    if each.form.mode == _MXFP4:
        return True
    assert each.biases is not None
    found = (read_stored(layer + end, tensor, _ADVICE)
             for end, tensor in ((_SCALES, each.scales), (_BIASES, each.biases)))  # fmt: skip
    with np.errstate(over="ignore"):
        return all(np.array_equal(values.astype(np.float16).astype(np.float32), values) for values in found)


def as_blocks(layer: str, each: Packed) -> np.ndarray:
    """uint8 [..., out, in / 32, bytes of a block], as llama.cpp's Q4_1 and MXFP4 are or, of 8 bits, with a scale and a
    bias in f16 before the codes."""
    codes = _codes(each).reshape(*each.shape[:-1], -1, _BLOCK)
    if each.form.bits == 4:
        codes = codes[..., : _BLOCK // 2] | codes[..., _BLOCK // 2 :] << 4
    if each.form.mode == _MXFP4:
        return np.concatenate([_bytes(each.scales)[..., None], codes], axis=-1)
    assert each.biases is not None
    halves = [read_stored(layer + end, tensor, _ADVICE).astype(np.float16)[..., None].view(np.uint8)
              for end, tensor in ((_SCALES, each.scales), (_BIASES, each.biases))]  # fmt: skip
    repeated = np.repeat(np.concatenate(halves, axis=-1), each.form.group // _BLOCK, axis=-2)
    return np.concatenate([repeated, codes], axis=-1)


def _say_kept(packed: Mapping[str, Packed], types: Mapping[str, str]) -> None:
    for (bits, mode), storage in _STORAGES.items():
        layers = [layer for layer, each in packed.items() if (each.form.bits, each.form.mode) == (bits, mode)]
        held = [layer for layer in layers if layer + _WEIGHT in types]
        if held:
            say(f"note: {len(held)} of {bits} bits keep every number as {storage}", error=True)
        if others := [layer for layer in layers if layer not in held]:
            say(f"note: {len(others)} of {bits} bits are stored as f32, the same numbers, for f16 does not hold their "
                f"scales: {listed_few(others)}", error=True)  # fmt: skip
