# SPDX-License-Identifier: Apache-2.0
"""Whether the fields of config.json and tokenizer.json that a GGUF file is made of are what they have to be."""

import math
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path

from mebp.errors import Error

_ADVICE = "export and compile the model again"
_WHOLE = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
          "num_key_value_heads", "head_dim", "max_position_embeddings", "sliding_window_pattern", "n_embd", "n_head",
          "n_inner", "n_layer", "n_positions", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
          "linear_value_head_dim", "linear_conv_kernel_dim", "full_attention_interval", "num_experts",
          "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size", "conv_L_cache",
          "block_multiple_of", "block_ff_dim", "global_head_dim", "num_global_key_value_heads", "top_k_experts",
          "vocab_size_per_layer_input", "num_local_experts", "no_rope_layer_interval")  # fmt: skip
_REAL = ("rms_norm_eps", "layer_norm_epsilon", "partial_rotary_factor", "rope_theta", "rope_local_base_freq",
         "final_logit_softcapping", "query_pre_attn_scalar", "sliding_window", "norm_eps", "num_dense_layers",
         "block_ffn_dim_multiplier", "hidden_size_per_layer_input", "num_kv_shared_layers", "attn_logit_softcapping",
         "embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling")  # fmt: skip
_OF_POSITIONS = ("rope_theta", "factor", "original_max_position_embeddings", "attention_factor", "mscale",
                 "mscale_all_dim", "beta_fast", "beta_slow", "low_freq_factor", "high_freq_factor",
                 "partial_rotary_factor")  # fmt: skip
# What a kind of positions cannot be without.
_NEEDED = {
    "linear": ("factor",),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
_A_WHOLE, _A_NUMBER, _A_TEXT, _AN_OBJECT = "a whole number from 1 on", "a number from 0 on", "a text", "a JSON object"


def check_config(config: Mapping, file: Path) -> None:
    """Raises mebp.Error, with the field, for one that is not of its kind; null is as if it were missing."""
    for field in _WHOLE:
        _check(config, field, file, _A_WHOLE, _is_whole)
    for field in _REAL:
        _check(config, field, file, _A_NUMBER, _is_real)
    for field in ("hidden_act", "hidden_activation", "activation_function"):
        _check(config, field, file, _A_TEXT, _is_text)
    _check(config, "layer_types", file, "a list of texts", lambda value: _is_list(value, _is_text))
    _check(config, "no_rope_layers", file, "a list of numbers from 0 on", lambda value: _is_list(value, _is_real))
    _check(config, "per_layer_config", file, "sizes by the numbers of layers", _are_sizes_of_layers)
    for field in ("rope_parameters", "rope_scaling"):
        _check(config, field, file, _AN_OBJECT, _is_object)
        found = config.get(field) or {}
        inner = [key for key in ("full_attention", "sliding_attention") if key in found]
        for key in inner:
            _check(found, key, file, _AN_OBJECT, _is_object)
        for rope in [found[key] or {} for key in inner] or [found]:
            _check_positions(rope, file)


def _check_positions(rope: Mapping, file: Path) -> None:
    for field in ("rope_type", "type"):
        _check(rope, field, file, _A_TEXT, _is_text)
    for field in _OF_POSITIONS:
        _check(rope, field, file, _A_NUMBER, _is_real)
    kind = rope.get("rope_type") or rope.get("type")
    for field in _NEEDED.get(kind, ()):
        if rope.get(field) is None:
            raise Error(f"{file}: has positions of type '{kind}', and lacks their number '{field}'; {_ADVICE}")


def check_tokenizer(tokenizer: Mapping, file: Path) -> None:
    """Of a tokenizer.json, what is BPE's."""
    _check(tokenizer, "model", file, _AN_OBJECT, _is_object)
    _check(tokenizer, "added_tokens", file, "a list of tokens, each with an id and its content", _are_tokens)
    model = tokenizer.get("model") or {}
    if model.get("type") not in (None, "BPE"):
        return  # refused for its kind
    for field, what, is_right in (("vocab", "the tokens with their numbers", _is_vocabulary),
                                  ("merges", "a list of pairs of texts", _are_merges)):  # fmt: skip
        if model.get(field) is None:
            raise Error(f"{file}: its model lacks '{field}'; {_ADVICE}")
        _check(model, field, file, what, is_right)


def _check(given: Mapping, field: str, file: Path, what: str, is_right: Callable[[object], bool]) -> None:
    value = given.get(field)
    if value is not None and not is_right(value):
        raise Error(f"{file}: '{field}' is {reprlib.repr(value)}, which is not {what}; {_ADVICE}")


def _is_whole(value: object, least: int = 1) -> bool:
    return type(value) is int and value >= least


def _is_real(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: object, is_right: Callable[[object], bool]) -> bool:
    return isinstance(value, list) and all(map(is_right, value))


def _is_vocabulary(value: object) -> bool:
    return _is_object(value) and len(value) > 0 and all(_is_whole(number, 0) for number in value.values())


def _are_merges(value: object) -> bool:
    return _is_list(value, lambda each: _is_text(each) or (_is_list(each, _is_text) and len(each) == 2))


def _are_sizes_of_layers(value: object) -> bool:
    return _is_object(value) and all(_is_object(each) and all(map(_is_whole, each.values())) for each in value.values())


def _are_tokens(value: object) -> bool:
    return _is_list(value, _is_token)


def _is_token(value: object) -> bool:
    return _is_object(value) and _is_whole(value.get("id"), 0) and _is_text(value.get("content"))
