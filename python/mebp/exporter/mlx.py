# SPDX-License-Identifier: Apache-2.0
"""MLX's folders of 4 and 8 bits: the numbers that they mean, and what a bundle keeps of these."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.errors import Error
from mebp.exporter.checkpoint import StoredTensor, read_header
from mebp.exporter.losses import loss_of
from mebp.exporter.mxfp4 import NUMBERS, POWERS
from mebp.exporter.storage_options import options_for
from mebp.files import check_space, open_regular
from mebp.gguf.codes import listed_few
from mebp.tensor_file import read_stored, write_tensors
from mebp.words import say

_FILE = "dequantised.safetensors"
_WEIGHT, _SCALES, _BIASES = ".weight", ".scales", ".biases"
_AFFINE, _MXFP4 = "affine", "mxfp4"
_GROUPS = (32, 64, 128)
_STORAGES = {4: "int4", 8: "int8"}
_EMBEDDING = ("embed_tokens", "wte", "word_embeddings", "embed_in")
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
    if bits not in _STORAGES:
        raise Error(f"{place}: {layer}of {str(bits)[:20]} bits by MLX, and 4 and 8 are read; {_INSTEAD}")
    if group not in _GROUPS:
        raise Error(f"{place}: {layer}in groups of {str(group)[:20]} by MLX, and 32, 64 and 128 are read; {_INSTEAD}")
    return Form(bits, group, _AFFINE)


def unpack(
    checkpoint: dict[str, StoredTensor], quantization: Mapping[str, object], folder: Path, model: str
) -> dict[str, StoredTensor]:
    """The checkpoint of `model` with f32 in place of codes, in a file in `folder`; says which matrices a bundle does
    not keep exactly. Raises Error where codes and scales do not fit together, or the disk is full."""
    packed = packed_layers(checkpoint, quantization)
    if not packed:
        return checkpoint
    shapes = {layer + _WEIGHT: each.shape for layer, each in packed.items()}
    size = sum(map(math.prod, shapes.values())) * 4
    check_space(folder, size, f"{model} in f32")
    say(f"note: the weights of {model}, which MLX quantised, are saved beside the graph in f32, {size / 1e6:,.1f} MB",
          error=True)  # fmt: skip
    losses: dict[str, float] = {}
    write_tensors(folder / _FILE, shapes, _numbers(packed, losses), "f32", advice=_ADVICE)
    _say_kept(packed, losses)
    taken = {layer + end for layer in packed for end in (_WEIGHT, _SCALES, _BIASES)}
    return {name: each for name, each in checkpoint.items() if name not in taken} | read_header(folder / _FILE)


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


def _numbers(packed: Mapping[str, Packed], losses: dict[str, float]) -> Iterator[np.ndarray]:
    for layer, each in packed.items():
        numbers = dequantise(layer, each)
        losses[layer] = loss_of(numbers, _STORAGES[each.form.bits])
        yield numbers


def dequantise(layer: str, each: Packed) -> np.ndarray:
    """f32 [..., out, in]: scale times code, plus the group's bias."""
    with open_regular(each.codes.file, _ADVICE) as file:
        file.seek(each.codes.offset)
        stored = np.frombuffer(file.read(each.codes.length), np.uint8)
    codes = stored if each.form.bits == 8 else np.stack([stored & 15, stored >> 4], axis=1)  # the low half first
    codes = codes.reshape(*each.scales.shape, each.form.group)
    if each.form.mode == _MXFP4:
        with open_regular(each.scales.file, _ADVICE) as file:
            file.seek(each.scales.offset)
            powers = np.frombuffer(file.read(each.scales.length), np.uint8).reshape(each.scales.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            return (NUMBERS[codes] * POWERS[powers][..., None]).reshape(each.shape)
    assert each.biases is not None
    scales = read_stored(layer + _SCALES, each.scales, _ADVICE)[..., None]
    biases = read_stored(layer + _BIASES, each.biases, _ADVICE)[..., None]
    return (codes.astype(np.float32) * scales + biases).reshape(each.shape)


def _say_kept(packed: Mapping[str, Packed], losses: Mapping[str, float]) -> None:
    for bits, storage in _STORAGES.items():
        layers = [layer for layer, each in packed.items() if each.form.bits == bits]
        lost = [layer for layer in layers if losses[layer] > 0]
        if kept := len(layers) - len(lost):
            say(f"note: {kept} of {bits} bits keep every number as {storage}", error=True)
        if lost:
            most = max(losses[layer] for layer in lost)
            say(f"note: {len(lost)} of {bits} bits are quantised again as {storage}, which loses at most {most:.1%} of "
                f"their norm (compiled with --weights f32 --embedding-weights f32 it keeps all): {listed_few(lost)}",
                error=True)  # fmt: skip


def storage_options(checkpoint: Mapping[str, StoredTensor], quantization: Mapping[str, object]) -> str:
    """mebpc's options that give each matrix as many bits as MLX did; "" where its defaults do."""
    storages = {layer: _STORAGES[each.form.bits] for layer, each in packed_layers(checkpoint, quantization).items()}
    embeddings = [layer for layer in storages if layer.endswith(_EMBEDDING)]
    embedding = storages[embeddings[0]] if embeddings else "int8"
    return options_for([each for each in storages.items() if each[0] not in embeddings], embedding)
