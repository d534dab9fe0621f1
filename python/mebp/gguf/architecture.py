# SPDX-License-Identifier: Apache-2.0
"""What llama.cpp knows of one model type: its tensors and its keys, in one table."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from mebp.errors import translate_errors
from mebp.gguf.container import Container
from mebp.gguf.keys import Keys
from mebp.gguf.positions import THETA, read_factors, rope_factors
from mebp.gguf.weights import PLUS_ONE, Order, Place, Weight

_NUMBER = "(0|[1-9][0-9]{0,5})"  # of a layer
_BLOCK = re.compile(rf"blk\.{_NUMBER}\.(.+)")
WINDOW = "attention.sliding_window"
WINDOW_THETA = "rope.freq_base_swa"  # of layers with one
_PARAMETERS = ("weight", "bias")


def decoder_extents(config: Mapping) -> dict[str, int]:
    """V words, h of the hidden states, q and k of all queries and keys, a of these with the values, f between the
    layers of the feed-forward network and g of two of these, w of one head."""
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    queries, keys = heads * width, (config.get("num_key_value_heads") or heads) * width
    inner = config.get("intermediate_size") or 0
    return {"V": config["vocab_size"], "h": config["hidden_size"], "w": width, "q": queries, "k": keys,
            "a": queries + 2 * keys, "f": inner, "g": 2 * inner, "1": 1}  # fmt: skip


def one_kind(config: Mapping) -> list[frozenset[str]]:
    """Of each layer, where all are alike."""
    return [frozenset()] * config["num_hidden_layers"]


@dataclass(frozen=True)
class Architecture:
    """Modules by transformers' names and llama.cpp's.

    name: what general.architecture says.
    model_type, model_class: what transformers calls it; where several are one to llama.cpp, the plainest.
    outer, inner: the weights beside the layers, and those of a layer.
    others: what some files have in place of those of `inner` with the same name in transformers.
    layers: what a layer's name begins with in transformers, as in `layers`.3.`inner`.
    kinds: of what kinds each layer is; `extents`: what the letters of shapes are. Both by a checked config.json.
    beside: of what kinds the weights beside the layers are, likewise.
    biased: which weights of a layer have a bias, too, by llama.cpp's names.
    keys: what llama.cpp reads of its metadata.
    norm_offset: whether transformers adds 1 to the weight of a norm, which llama.cpp expects to be there already.
    tied: whether embedding and head are one where config.json does not say so.
    activations: the names of what llama.cpp computes between the layers of a feed-forward network.
    usual_theta: the base of positions where config.json has none. scales_positions: whether transformers can, so that a
        file may say it.
    turned_part: the usual share of each head that positions turn; None: they turn all of each.
    plain_positions: the kinds of positions that no key says. factors, read_factors: what their frequencies are divided
        by, which is a tensor in llama.cpp; and the other way, which sets fields of config.json.
    usual: fields that transformers takes where config.json has none.
    older_fields: what fields of config.json were called, which transformers still reads first.
    own_metadata, own_config: what only this architecture has, by config.json and its file, and the other way by the
        file and what the others have become.
    """

    name: str
    model_type: str
    model_class: str
    outer: tuple[Weight, ...]
    inner: tuple[Weight, ...]
    layers: str = "model.layers"
    kinds: Callable[[Mapping], list[frozenset[str]]] = one_kind
    beside: Callable[[Mapping], frozenset[str]] = lambda config: frozenset()
    extents: Callable[[Mapping], dict[str, int]] = decoder_extents
    biased: Callable[[Mapping], frozenset[str]] = lambda config: frozenset()
    keys: Keys = field(default_factory=Keys)
    norm_offset: bool = False
    tied: bool = False
    activations: tuple[str, ...] = ("silu", "swish")
    turned_part: float | None = None
    usual_theta: float = THETA
    scales_positions: bool = True
    plain_positions: tuple[str, ...] = ("default",)
    factors: Callable[[Mapping], np.ndarray | None] = rope_factors
    read_factors: Callable[[Container, dict], None] = read_factors
    usual: Mapping[str, object] = field(default_factory=dict)
    others: tuple[Weight, ...] = ()
    older_fields: Mapping[str, str] = field(default_factory=dict)
    own_metadata: Callable[[Mapping, Path], dict] = lambda config, file: {}
    own_config: Callable[[Container, dict], dict] = lambda container, config: {}

    @property
    def has_window(self) -> bool:
        """Whether llama.cpp computes some of its layers with one."""
        return WINDOW in self.keys.own

    @property
    def has_local_positions(self) -> bool:
        """Whether layers with a window have positions of their own."""
        return WINDOW_THETA in self.keys.own

    def as_in(self, container: Container) -> "Architecture":
        """With the weights as this file has them."""
        there = {found[2] for found in (_BLOCK.fullmatch(each.name) for each in container.tensors) if found}
        others = {each.ours: each for each in self.others if not there.isdisjoint(_full_names(each))}
        return replace(self, inner=tuple(others.get(each.ours, each) for each in self.inner)) if others else self

    @property
    def inner_modules(self) -> set[str]:
        """Of a layer, by transformers' names."""
        return {*self._inner}

    @property
    def modules(self) -> set[str]:
        """With those beside the layers."""
        return {*self._inner, *(each.ours for each in self.outer)}

    def is_turned(self, module: str) -> bool:
        """Whether transformers has the weight of this module as [in, out]."""
        return any(each.turned and module.endswith(f".{each.ours}") for each in self.inner)

    def place(self, name: str, config: Mapping, what: str) -> Place | None:
        """Where llama.cpp has the tensor that transformers calls `name`; None where it has none. what: what a refusal
        begins with."""
        before, inner = self._within(name)
        if before and inner in self._whole:
            return self._place(self._whole[inner], name, "", config, what)
        module, _, parameter = name.rpartition(".")
        weight = self.weight_of(module)
        if weight is None or parameter not in _PARAMETERS:
            return None
        return self._place(weight, module, parameter, config, what)

    def weight_of(self, module: str) -> Weight | None:
        """Of transformers' module."""
        before, inner = self._within(module)
        return (self._inner if before else self._outer).get(inner)

    def from_gguf(self, name: str) -> tuple[str, Weight, int] | None:
        """transformers' name of what llama.cpp calls `name`, and which of its tensors it is; None where it has none."""
        found = _BLOCK.fullmatch(name)
        known, rest, before = (self._inner_back, found[2], f"{self.layers}.{found[1]}.") if found else (
            self._outer_back, name, "")  # fmt: skip
        if rest in known and known[rest][0].whole:
            weight, part = known[rest]
            return before + weight.ours, weight, part
        module, _, parameter = rest.rpartition(".")
        if module not in known or parameter not in _PARAMETERS or known[module][0].whole:
            return None
        weight, part = known[module]
        return f"{before}{weight.ours}.{parameter}", weight, part

    def weights_of(self, config: Mapping) -> Iterator[tuple[str, Weight]]:
        """Each that a model with this config.json has, with what its names in llama.cpp begin with."""
        beside = self.beside(config)
        for weight in self.outer:
            if not weight.kind or weight.kind in beside:
                yield "", weight
        for number, kinds in enumerate(self.kinds(config)):
            for weight in self.inner:
                if not weight.kind or weight.kind in kinds:
                    yield f"blk.{number}.", weight

    def _within(self, name: str) -> tuple[str, str]:
        """What llama.cpp's name begins with in the same layer, and the rest of transformers'; "" beside the layers."""
        found = re.fullmatch(rf"{re.escape(self.layers)}\.{_NUMBER}\.(.+)", name)
        return (f"blk.{found[1]}.", found[2]) if found else ("", name)

    def _place(self, weight: Weight, module: str, parameter: str, config: Mapping, what: str) -> Place:
        is_bias, (before, _) = parameter == "bias", self._within(module)

        def order(made_by: Order | None) -> Callable[[int], np.ndarray] | None:
            return made_by and (lambda count: made_by(config, module, count, what))

        cuts: tuple[int, ...] = ()
        if len(weight.names) > 1:
            lacking = f"{what}: the base model's config.json lacks a size of '{self.name}'"
            with translate_errors(lacking, "download it again", (ArithmeticError, LookupError, TypeError, ValueError)):
                extents = self.extents(config)
            cuts = tuple(extents[shape[-2]] for shape in weight.shapes)
        is_offset = self.norm_offset and weight.ours.endswith("norm") and not is_bias
        return Place(
            tuple(before + name + (f".{parameter}" if parameter else "") for name in weight.names),
            what,
            rows=order(weight.rows),
            columns=None if is_bias else order(weight.columns),
            cuts=cuts,
            turned=weight.turned,
            is_filter=weight.is_filter and not is_bias,
            change=weight.change or (PLUS_ONE if is_offset else None),
            is_exact=weight.is_exact,
        )

    @cached_property
    def _inner(self) -> dict[str, Weight]:
        return {each.ours: each for each in self.inner if not each.whole}

    @cached_property
    def _outer(self) -> dict[str, Weight]:
        return {each.ours: each for each in self.outer}

    @cached_property
    def _whole(self) -> dict[str, Weight]:
        return {each.ours: each for each in self.inner if each.whole}

    @cached_property
    def _inner_back(self) -> dict[str, tuple[Weight, int]]:
        return _by_their_names(self.inner)

    @cached_property
    def _outer_back(self) -> dict[str, tuple[Weight, int]]:
        return _by_their_names(self.outer)


def _full_names(weight: Weight) -> set[str]:
    return {name if weight.whole else f"{name}.weight" for name in weight.names}


def _by_their_names(weights: tuple[Weight, ...]) -> dict[str, tuple[Weight, int]]:
    return {name: (each, part) for each in weights for part, name in enumerate(each.names)}
