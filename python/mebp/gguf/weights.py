# SPDX-License-Identifier: Apache-2.0
"""One weight as transformers and llama.cpp have it: its names, its extents, and where its numbers lie in each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mebp.errors import Error

# Of a base model's config.json, a module, how many rows or columns it has, and what a refusal begins with: which of
# transformers' rows is each of llama.cpp's.
Order = Callable[[Mapping, str, int, str], np.ndarray]


@dataclass(frozen=True)
class Change:
    """What llama.cpp has in place of each number. `back` is given the tensor's place, which a refusal begins with."""

    there: Callable[[np.ndarray], np.ndarray]
    back: Callable[[np.ndarray, str], np.ndarray]


@dataclass(frozen=True)
class Weight:
    """A row of an architecture's table.

    ours: transformers' name of the module, within a layer if it is in one.
    theirs: llama.cpp's; several, with spaces between, where it has the rows in several tensors, one after the other.
    shape: of each of llama.cpp's, which has the transposed one of a `turned`; a letter is an extent, and 1 is one.
    kind: of the layers that have it; empty: all have it.
    whole: both are names of tensors, and not of modules with a .weight.
    rows, columns: how they are ordered, if otherwise. A vector has rows; of experts it is within each.
    turned: transformers has it as [in, out].
    is_filter: transformers has an extent of 1 in the middle, as a convolution's.
    change: of its numbers, in place of what the architecture does with norms.
    is_exact: llama.cpp wants it in f32.
    takes_lora: llama.cpp adds an adapter to it, if it is a matrix.
    """

    ours: str
    theirs: str
    shape: str
    kind: str = ""
    whole: bool = False
    rows: Order | None = None
    columns: Order | None = None
    turned: bool = False
    is_filter: bool = False
    change: Change | None = None
    is_exact: bool = False
    takes_lora: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.theirs.split())

    @property
    def shapes(self) -> tuple[str, ...]:
        """One for each name."""
        return tuple(self.shape.split())

    @property
    def is_linear(self) -> bool:
        """Whether LoRA can be of it."""
        return self.takes_lora and not self.whole and not self.is_filter and len(self.shapes[0]) == 2


@dataclass(frozen=True)
class Place:
    """A tensor's numbers in llama.cpp, by a model's config.json. rows, columns: make the order of so many. cuts: the
    rows of each of several tensors. what: what a refusal begins with."""

    names: tuple[str, ...]
    what: str
    rows: Callable[[int], np.ndarray] | None = None
    columns: Callable[[int], np.ndarray] | None = None
    cuts: tuple[int, ...] = ()
    turned: bool = False
    is_filter: bool = False
    change: Change | None = None
    is_exact: bool = False

    def shapes_there(self, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Of llama.cpp's tensors, for transformers' shape."""
        shape = (shape[0], *shape[2:]) if self.is_filter else shape
        shape = shape[::-1] if self.turned and len(shape) == 2 else shape
        if self.cuts:
            check_count(sum(self.cuts), " and ".join(self.names), shape[-2] if len(shape) > 1 else 0, self.what)
        return [(*shape[:-2], rows, shape[-1]) for rows in self.cuts] or [shape]

    def shape_here(self, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
        """The other way."""
        shape = shapes[0]
        if self.cuts:
            shape = (*shape[:-2], sum(each[-2] for each in shapes), shape[-1])
        shape = shape[::-1] if self.turned and len(shape) == 2 else shape
        return (shape[0], 1, *shape[1:]) if self.is_filter else shape

    def there(self, values: np.ndarray) -> list[np.ndarray]:
        """llama.cpp's tensors."""
        if self.is_filter:
            values = values.reshape(values.shape[0], *values.shape[2:])
        if self.turned and values.ndim == 2:
            values = values.T
        values = self.columns_there(values)
        if self.change is not None:
            values = self.change.there(values)
        return self.rows_there(values)

    def here(self, tensors: list[np.ndarray]) -> np.ndarray:
        """transformers' tensor."""
        values = self.rows_here(tensors)
        if self.change is not None:
            values = self.change.back(values, self.what)
        values = self.columns_here(values)
        if self.turned and values.ndim == 2:
            values = values.T
        return values[:, None] if self.is_filter else values

    def rows_there(self, values: np.ndarray) -> list[np.ndarray]:
        """As each of llama.cpp's tensors has them; of LoRA these are B's."""
        if self.rows is not None:
            axis = max(values.ndim - 2, 0)
            values = values.take(self.rows(values.shape[axis]), axis)
        return np.split(values, np.cumsum(self.cuts)[:-1], -2) if self.cuts else [values]

    def rows_here(self, tensors: list[np.ndarray]) -> np.ndarray:
        values = np.concatenate(tensors, -2) if len(tensors) > 1 else tensors[0]
        if self.rows is None:
            return values
        axis = max(values.ndim - 2, 0)
        return values.take(np.argsort(self.rows(values.shape[axis])), axis)

    def columns_there(self, values: np.ndarray) -> np.ndarray:
        """Of LoRA these are A's."""
        return values if self.columns is None else values[..., self.columns(values.shape[-1])]

    def columns_here(self, values: np.ndarray) -> np.ndarray:
        return values if self.columns is None else values[..., np.argsort(self.columns(values.shape[-1]))]


def check_count(expected: int, module: str, count: int, what: str) -> None:
    """Raises mebp.Error where a module has another number of rows or columns than its order or its parts have."""
    if expected != count:
        raise Error(f"{what}: '{module}' has {count} rows or columns where its base model has {expected}; use the "
                    "adapter's own base model")  # fmt: skip


def paired(config: Mapping, module: str, count: int, what: str) -> np.ndarray:
    """llama.cpp turns neighbouring rows of a head, 2 i and 2 i + 1, by one angle; transformers rows i and i + half."""
    heads = _heads(config, module.endswith("k_proj"), what)
    if count % (2 * heads):
        raise Error(f"{what}: '{module}' has {count} rows, which are not {heads} heads; use the adapter's own base "
                    "model")  # fmt: skip
    return np.arange(count).reshape(heads, 2, -1).swapaxes(1, 2).reshape(-1)


_MOST_HEADS = 1 << 16


def _heads(config: Mapping, of_keys: bool, what: str) -> int:
    field = "num_key_value_heads" if of_keys and config.get("num_key_value_heads") else "num_attention_heads"
    return whole_number(config, field, what)


def whole_number(config: Mapping, field: str, what: str) -> int:
    """A number of heads or features; raises mebp.Error where a base model's config.json lacks it."""
    found = config.get(field)
    if type(found) is not int or not 1 <= found <= _MOST_HEADS:
        raise Error(f"{what}: the base model's config.json lacks the number {field}; download it again")
    return found


PLUS_ONE = Change(lambda values: values + np.float32(1), lambda values, what: values - np.float32(1))
AS_IT_IS = Change(lambda values: values, lambda values, what: values)
