# SPDX-License-Identifier: Apache-2.0
"""Where llama.cpp has the adapter of each layer of one model, as a bundle's manifest says it to the C library, which
has no tables of architectures (docs/format.md)."""

import re
from collections.abc import Mapping

import numpy as np

from mebp.errors import Error
from mebp.gguf.architecture import Architecture
from mebp.gguf.architectures import architecture_of

HEAD = "lm_head"
# Why a layer has no place, behind its name.
WITHOUT_ADAPTERS = "which llama.cpp computes without adapters; train the adapter without it, or merge it"
TIED = (
    "which is tied to the embedding, and neither MLX-LM nor llama.cpp can adapt one without the other; merge it with "
    "mebp merge, or train the adapter without it"
)
_WHAT = "model"
_LAYER = re.compile(r"\.[0-9]+\.")  # its number stands for that of any layer
_SUFFIX = ".weight"
_TABLE = "_embd"  # of tokens or positions, which is no linear layer


def adapter_places(config: Mapping, shapes: Mapping[str, tuple[int, ...]], has_tied_head: bool) -> dict[str, object]:
    """By a config.json of the text alone, and the shapes of the model's tensors in transformers.

    `refused` says why llama.cpp has no adapter of such a model, or of a layer.
    """
    try:
        architecture = architecture_of(config.get("model_type"), _WHAT)
        return {"architecture": architecture.name, "layers": _layers(architecture, config, shapes, has_tied_head)}
    except Error as error:
        return {"refused": str(error).removeprefix(f"{_WHAT}: ")}


def boxes(order: np.ndarray) -> list[list[int]]:
    """The numbers of `order` as boxes one after the other, each [first, extent, stride, extent, stride, ...] with what
    changes slowest before the others."""
    found, begin = [], 0
    while begin < len(order):
        extents, size = [], 1
        while (repeats := _repeats(order[begin:], size))[0] > 1:
            extents = [*repeats, *extents]
            size *= repeats[0]
        found.append([int(order[begin]), *extents])
        begin += size
    return found


def _repeats(order: np.ndarray, size: int) -> tuple[int, int]:
    """How often the first `size` numbers come, each time higher by one stride, and that stride."""
    stride = int(order[size] - order[0]) if len(order) > size else 0
    count = 1
    while stride > 0 and np.array_equal(order[count * size : (count + 1) * size], order[:size] + count * stride):
        count += 1
    return count, stride


def _layers(
    architecture: Architecture, config: Mapping, shapes: Mapping[str, tuple[int, ...]], has_tied_head: bool
) -> dict[str, dict]:
    found: dict[str, dict] = {HEAD: {"refused": TIED}} if has_tied_head else {}
    for name, shape in shapes.items():
        module = name.removesuffix(_SUFFIX)
        weight = architecture.weight_of(module)
        is_matrix = module != name and weight is not None and len(shape) == 2 and not weight.theirs.endswith(_TABLE)
        if not is_matrix or (module == HEAD and has_tied_head):
            continue
        place = _place(architecture, config, name, shape) if weight.is_linear else {"refused": WITHOUT_ADAPTERS}
        if weight.is_linear or not weight.takes_lora:
            _add(found, module, place)
    return found


def _place(architecture: Architecture, config: Mapping, name: str, shape: tuple[int, ...]) -> dict[str, object]:
    place = architecture.place(name, config, _WHAT)
    rows, columns = shape[::-1] if place.turned else shape
    found: dict[str, object] = {"tensors": [*place.names]}
    if place.cuts:
        found["cuts"] = [*place.cuts]
    if place.rows is not None:
        found["rows"] = boxes(place.rows(rows))
    if place.columns is not None:
        found["columns"] = boxes(place.columns(columns))
    return found


def _add(found: dict[str, dict], module: str, place: dict[str, object]) -> None:
    """Under a name for all layers, unless another one has something else there."""
    every = dict(place)
    if "tensors" in place:
        every["tensors"] = [_LAYER.sub(".*.", each, count=1) for each in place["tensors"]]
    if found.setdefault(_LAYER.sub(".*.", module, count=1), every) != every:
        found[module] = place
