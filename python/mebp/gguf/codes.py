# SPDX-License-Identifier: Apache-2.0
"""Which of a GGUF file's codes a bundle keeps: mebpc quantises the dequantised values again, and where that gives the
very same numbers nothing is lost."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mebp.gguf.ahead import without_ahead
from mebp.gguf.architectures import architecture_in
from mebp.gguf.container import Container, StoredTensor
from mebp.gguf.metadata import model_config

# What mebpc's --weights calls the storage that holds a type exactly, or is the nearest to it.
_EXACT = {"Q4_0": "int4-sym", "Q4_1": "int4", "Q8_0": "int8", "BF16": "bf16", "F32": "f32", "F16": "f32"}
_NEAREST = {"Q4_K": "int4"}
_NEAREST_OF_OTHERS = "int8"
_WHOLE = ("F32", "F16", "BF16")  # nothing is quantised yet

_WHY = {
    "Q4_K": "the scales of its groups are products, which f16 does not hold",
    "Q6_K": "its groups have 16 codes of 6 bits",
}
_WHY_OTHERS = "no storage of a bundle has its codes"
_WHY_UNUSED = "some of its groups do not use all codes"
_WHY_TORN = "its groups are of columns that transformers has apart"
_GROUP = 32  # columns
_LAYER = re.compile(r"\.[0-9]+\.")
_EMBEDDING = "token_embd.weight"


@dataclass(frozen=True)
class Kept:
    """Of all matrices of one type: how many there are, and which of them lose something in `storage`, and why."""

    kind: str
    storage: str
    count: int
    lost: list[str]
    why: str

    def __str__(self) -> str:
        if self.kind in _WHOLE:
            return f"{self.count} matrices are {self.kind}, which mebpc quantises as it is asked to"
        kept = self.count - len(self.lost)
        lines = [f"{kept} of {self.kind} keep their codes as {self.storage}"] if kept else []
        if self.lost:
            lines.append(f"{len(self.lost)} of {self.kind} are quantised again, to {self.storage} at best, for "
                         f"{self.why}: {listed_few(self.lost)}")  # fmt: skip
        return "; ".join(lines)


def kept_codes(container: Container) -> list[Kept]:
    """Reads all codes. One entry for each type, in the order in which they appear."""
    container, torn = without_ahead(container), _torn(container)
    matrices = [tensor for tensor in container.tensors if len(tensor.shape) > 1]
    return [_kept(container, kind, [each for each in matrices if each.kind == kind], torn)
            for kind in dict.fromkeys(tensor.kind for tensor in matrices)]  # fmt: skip


def storage_options(container: Container) -> str:
    """mebpc's options that store each matrix as near to the file as can be; "" where its defaults do."""
    container = without_ahead(container)
    storages = {tensor.name: _storage(tensor.kind) for tensor in container.tensors
                if len(tensor.shape) > 1 and tensor.kind not in _WHOLE}  # fmt: skip
    embedding = storages.pop(_EMBEDDING, "int8")
    architecture = architecture_in(container)
    there = {name: architecture.from_gguf(name) for name in storages}
    ours = {name: found[0].removesuffix(".weight") if found else name for name, found in there.items()}
    return options_for([(ours[name], storage) for name, storage in storages.items()], embedding)


def options_for(storages: Sequence[tuple[str, str]], embedding: str) -> str:
    """mebpc's options for these storages of layers, by transformers' names, and of the embedding."""
    every = [storage for _, storage in storages] or ["int4"]
    most = max(every, key=every.count)
    options = [] if most == "int4" else [f"--weights {most}"]
    if embedding != "int8":
        options.append(f"--embedding-weights {embedding}")
    patterns = _patterns(storages, most)
    if patterns:
        options.append(f"--weights-for '{','.join(patterns)}'")
    return " ".join(options)


def _storage(kind: str) -> str:
    return _EXACT.get(kind) or _NEAREST.get(kind, _NEAREST_OF_OTHERS)


def _patterns(storages: Sequence[tuple[str, str]], most: str) -> list[str]:
    """What is not stored as most are, as --weights-for takes it: *.v_proj=int8 where all layers have it so, else each
    by its name."""
    of_end: dict[str, set[str]] = {}
    for name, storage in storages:
        for end in _ends(name):
            of_end.setdefault(end, set()).add(storage)
    found = []
    for name, storage in storages:
        if storage != most:
            is_inner = _LAYER.search(name)
            short = next((end for end in _ends(name) if is_inner and len(of_end[end]) == 1), None)
            found.append(f"*.{short}={storage}" if short else f"{name}={storage}")
    return list(dict.fromkeys(found))


def _ends(name: str) -> list[str]:
    """What stands for a weight of each layer: the ends of its name behind the layer's number, the shortest first."""
    inner = _LAYER.split(name, maxsplit=1)[-1].split(".")
    return [".".join(inner[-count:]) for count in range(1, len(inner) + 1)]


def _torn(container: Container) -> set[str]:
    """Matrices with groups of columns that do not stay together."""
    architecture = architecture_in(container)
    found: set[str] = set()
    config: Mapping = {}
    for tensor in container.tensors:
        ours = architecture.from_gguf(tensor.name)
        if ours is None or ours[1].columns is None:
            continue
        config = config or model_config(architecture, container)
        place = architecture.place(ours[0], config, f"{container.path}")
        order = place.columns_here(np.arange(tensor.shape[-1])) if place else np.arange(tensor.shape[-1])
        groups = order.reshape(-1, min(_GROUP, len(order))) if len(order) % _GROUP == 0 else order[None]
        if (groups[:, 0] % _GROUP).any() or (np.diff(groups) != 1).any():
            found.add(tensor.name)
    return found


def _kept(container: Container, kind: str, tensors: list[StoredTensor], torn: set[str]) -> Kept:
    if kind in _WHOLE:
        return Kept(kind, _storage(kind), len(tensors), [], "")
    if kind not in _EXACT:
        return Kept(kind, _storage(kind), len(tensors), [each.name for each in tensors], _WHY.get(kind, _WHY_OTHERS))
    lost = [each.name for each in tensors if each.name in torn or not _keeps(kind, container.raw(each))]
    reasons = [why for why, is_so in ((_WHY_TORN, torn & {*lost}), (_WHY_UNUSED, {*lost} - torn)) if is_so]
    return Kept(kind, _storage(kind), len(tensors), lost, " or ".join(reasons))


def _keeps(kind: str, raw: np.ndarray) -> bool:
    """Whether mebpc finds the same codes and scales (compiler/emit/Quantize.cpp): it takes a group's scale from its
    lowest and highest value, or from its largest, so these have to be codes at the end of the range."""
    size = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}[kind]
    blocks = raw.reshape(-1, size)
    if kind == "Q8_0":
        largest = np.abs(blocks[:, 2:].view(np.int8).astype(np.int16)).max(axis=1)
        return bool(np.isin(largest, (0, 127)).all())
    codes = blocks[:, size - 16 :]
    low = np.minimum(codes & 15, codes >> 4).min(axis=1)
    high = np.maximum(codes & 15, codes >> 4).max(axis=1)
    if kind == "Q4_0":
        return bool(((low == 0) | ((low == 8) & (high == 8))).all())
    scales = blocks[:, :2].copy().view(np.float16)[:, 0]
    return bool((((low == 0) & (high == 15)) | ((scales == 0) | (high == 0))).all())


def listed_few(names: Iterable[str]) -> str:
    """The first three, and how many more."""
    every = list(names)
    return ", ".join(every[:3]) + (f" and {len(every) - 3} more" if len(every) > 3 else "")
