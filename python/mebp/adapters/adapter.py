# SPDX-License-Identifier: Apache-2.0
"""An adapter, whatever its form: W + scale B A for each layer that it names."""

import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.errors import Error
from mebp.exporter.text_parts import TextPart

_LAYER = re.compile(r"(.+\.(?:layers|h))\.([0-9]{1,9})\.(.+)")
_LARGEST_SCALE = 1e30
_LONGEST_PATH = 4096


@dataclass(frozen=True)
class Layer:
    """A [rank, in] and B [out, rank], float32; the layer adds scale B A x."""

    a: np.ndarray
    b: np.ndarray
    scale: float

    @property
    def rank(self) -> int:
        return self.a.shape[0]


@dataclass(frozen=True)
class Adapter:
    """`layers` are named as transformers' modules, as in model.layers.0.self_attn.q_proj; `base` is the model's name or
    folder, if the file says it; of a hub id with its revision behind an @. `part`: that the file is for a class which
    takes more than text, and where that has its text; `layers` have the names of the text's class all the same."""

    source: Path
    layers: dict[str, Layer]
    base: str | None
    part: TextPart | None = None

    @property
    def rank(self) -> int:
        """The largest."""
        return max(layer.rank for layer in self.layers.values())

    @property
    def scale(self) -> float:
        """That of most layers, of those that are not zero; the first of them where several have as many."""
        scales = Counter(layer.scale for layer in self.layers.values() if layer.scale)
        return max(scales, key=scales.__getitem__, default=1.0)

    @property
    def numbers(self) -> list[int]:
        """Of the layers that something is adapted in, ascending."""
        return sorted({int(match[2]) for name in self.layers if (match := _LAYER.fullmatch(name))})

    def b_for(self, name: str, scale: float) -> np.ndarray:
        """A layer's B where the reader multiplies by `scale`, which is not zero: itself, wherever that is the layer's
        own. Raises mebp.Error for numbers that float32 does not hold."""
        layer = self.layers[name]
        if scale == layer.scale:
            return layer.b
        with np.errstate(over="ignore", invalid="ignore"):
            found = layer.b * np.float32(layer.scale / scale)
        if not np.isfinite(found).all():
            raise Error(f"{self.source}: '{name}' has the scale {layer.scale:g} and most layers {self.scale:g}, which "
                        "float32 cannot hold in one; train the adapter with scales that are nearer")  # fmt: skip
        return found


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
        if not a.size or not b.size or not np.isfinite(a).all() or not np.isfinite(b).all():
            raise Error(f"{source}: '{name}' has factors {list(a.shape)} and {list(b.shape)}, which are empty or not "
                        "finite; use an adapter from a run that did not diverge")  # fmt: skip
        found[name] = a, b
    return found


def shown(value: object) -> str:
    """In a line, whatever a file has there."""
    return value[:60] if isinstance(value, str) else reprlib.repr(value)


def read_scale(value: object, what: str, advice: str) -> float:
    """A scale or an alpha; raises mebp.Error, about `what`, for what float32 products do not hold."""
    if type(value) not in (int, float) or (value and not 1 / _LARGEST_SCALE <= abs(value) <= _LARGEST_SCALE):
        raise Error(f"{what} is not a number that can be used ({reprlib.repr(value)}); {advice}")
    return float(value)


def read_base(config: Mapping, field: str, file: Path) -> str | None:
    """The name or folder of the base model; raises mebp.Error where it is not one."""
    base = config.get(field)
    if base is None or base == "":
        return None
    if not isinstance(base, str) or len(base) > _LONGEST_PATH or not base.isprintable():
        raise Error(f"{file}: {field} is {reprlib.repr(base)}, which is not a name or a folder; correct it")
    return base


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
