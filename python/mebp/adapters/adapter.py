# SPDX-License-Identifier: Apache-2.0
"""An adapter, whatever its form: W + scale B A for each layer that it names."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.errors import Error

_LAYER = re.compile(r"(.+\.(?:layers|h))\.(\d+)\.(.+)")


@dataclass(frozen=True)
class Layer:
    """A [rank, in] and B [out, rank], float32; the layer adds scale B A x."""

    a: np.ndarray
    b: np.ndarray
    scale: float

    @property
    def rank(self) -> int:
        return self.a.shape[0]

    def b_for(self, scale: float) -> np.ndarray:
        """B where the reader multiplies by `scale`: itself, wherever that is the layer's own."""
        return self.b if scale == self.scale else self.b * np.float32(self.scale / scale)


@dataclass(frozen=True)
class Adapter:
    """`layers` are named as transformers' modules, as in model.layers.0.self_attn.q_proj; `base` is the model's name or
    folder, if the file says it; of a hub id with its revision behind an @."""

    source: Path
    layers: dict[str, Layer]
    base: str | None

    @property
    def rank(self) -> int:
        """The largest."""
        return max(layer.rank for layer in self.layers.values())

    @property
    def scale(self) -> float:
        """That of most layers; the first of them where several have as many."""
        scales = [layer.scale for layer in self.layers.values()]
        return max(scales, key=scales.count)


def paired(source: Path, factors: dict[str, dict[str, np.ndarray]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A and B of each layer, by "a" and "b"; raises mebp.Error where one is missing or they do not fit each other."""
    if not factors:
        raise Error(f"{source}: has no LoRA of a linear layer; give an adapter")
    found = {}
    for name, each in factors.items():
        if each.keys() != {"a", "b"}:
            raise Error(f"{source}: '{name}' has one factor of two; save the adapter again")
        a, b = each["a"], each["b"]
        if a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1]:
            raise Error(f"{source}: '{name}' has factors {list(a.shape)} and {list(b.shape)}, which do not fit; only "
                        "LoRA of linear layers is supported")  # fmt: skip
        found[name] = a, b
    return found


def short_names(layers: Iterable[str]) -> list[str]:
    """What stands for exactly these layers where all of a model's are meant: the names within a layer, if each layer
    from the first on has all of them, else the whole names."""
    names = list(layers)
    matches = [_LAYER.fullmatch(name) for name in names]
    outside = sorted(name for name, match in zip(names, matches, strict=True) if match is None)
    inside: dict[str, set[int]] = {}
    for match in filter(None, matches):
        inside.setdefault(match[3], set()).add(int(match[2]))
    numbers = set().union(*inside.values())
    if numbers == set(range(len(numbers))) and all(each == numbers for each in inside.values()):
        return sorted(inside) + outside
    return sorted(names)
