# SPDX-License-Identifier: Apache-2.0
"""The kinds of layers that a model has, and those that its type can have."""

import importlib
import inspect
import re
from collections.abc import Iterable, Sequence

from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.configuration_utils import ALLOWED_ATTN_LAYER_TYPES, ALLOWED_MLP_LAYER_TYPES

_MIXERS = set(ALLOWED_ATTN_LAYER_TYPES) - set(ALLOWED_MLP_LAYER_TYPES)


def layer_kinds(config: PreTrainedConfig) -> list[str]:
    """One name for each layer of the text, such as "sliding_attention + experts": what it mixes tokens with, if the
    configuration says that, and in what it differs from other layers of its type."""
    text = config.get_text_config()
    names = mixers(text)
    for suffix, marks in (
        ("experts", _experts(text)),
        ("no rotation", _without_rotation(text)),
        ("shared keys", _sharing(text)),
        ("sparse activations", [each > 0 for each in getattr(text, "activation_sparsity_pattern", None) or ()]),
    ):
        if len(set(marks)) > 1:
            pairs = zip(names, marks, strict=True)
            names = [" + ".join(filter(None, (name, suffix if is_so else ""))) for name, is_so in pairs]
    if getattr(text, "enable_moe_block", False):  # Gemma 4's, in all layers or in none
        names = [f"{name} + experts" for name in names]
    return [name or "dense" for name in names] if len(set(names)) > 1 else names


def mixers(text: PreTrainedConfig) -> list[str]:
    """Of each layer, "" where all are alike and have no name."""
    named = getattr(text, "layer_types", None) or getattr(text, "layers_block_type", None)
    return [str(each) for each in named] if named else [""] * text.num_hidden_layers


def distinct(kinds: Iterable[str]) -> list[str]:
    """The order is that of the layers."""
    return [each for each in dict.fromkeys(kinds) if each]


def layers_field(model_type: str) -> str | None:
    """By which a configuration of this type says the mixers of all its layers; None where it takes none."""
    known = inspect.signature(CONFIG_MAPPING[model_type].__init__).parameters
    return next((name for name in ("layer_types", "layers_block_type", "block_types") if name in known), None)


def known_layers(model_type: str) -> list[str]:
    """The mixers that layers of this type can have: those of its default configuration, and those of layer_types that
    its class asks for by name. Empty where it has one kind only, or where a configuration cannot choose."""
    field, kind = layers_field(model_type), CONFIG_MAPPING[model_type]
    if field is None:
        return []
    module = importlib.import_module(kind.__module__.replace(".configuration_", ".modeling_"))
    source = inspect.getsource(module) if field == "layer_types" else ""
    asked = {each for each in _MIXERS if re.search(rf"[\"']{each}[\"']", source)}
    found = asked | set(distinct(mixers(kind())))
    return sorted(found) if len(found) > 1 else []


def _experts(text: PreTrainedConfig) -> Sequence[bool]:
    count = text.num_hidden_layers
    if kinds := getattr(text, "mlp_layer_types", None):
        return [each != "dense" for each in kinds]
    if counts := getattr(text, "layers_num_experts", None):
        return [each > 1 for each in counts]
    if (layers := getattr(text, "moe_layers", None)) is not None:
        return [index in layers for index in range(count)]
    for name in ("first_k_dense_replace", "num_dense_layers"):
        if isinstance(dense := getattr(text, name, None), int):
            return [index >= dense for index in range(count)]
    if isinstance(step := getattr(text, "decoder_sparse_step", None), int):
        plain = getattr(text, "mlp_only_layers", None) or ()
        return [index not in plain and (index + 1) % step == 0 for index in range(count)]
    return ()


def _without_rotation(text: PreTrainedConfig) -> Sequence[bool]:
    return [not each for each in getattr(text, "no_rope_layers", None) or ()]


def _sharing(text: PreTrainedConfig) -> Sequence[bool]:
    shared = getattr(text, "num_kv_shared_layers", None) or 0
    return [index >= text.num_hidden_layers - shared for index in range(text.num_hidden_layers)]
