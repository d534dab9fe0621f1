# SPDX-License-Identifier: Apache-2.0
"""Gemma 4's text: layers with a window and others that attend to all, whose heads are wider; the last may read the keys
of earlier ones, each may take inputs of the ids, and experts may stand beside the feed-forward network."""

from collections.abc import Mapping

from mebp.gguf.architecture import WINDOW, Architecture
from mebp.gguf.dense import DECODER
from mebp.gguf.gemma4_settings import KEY_HEADS, OWN_KEYS, gemma4_config, gemma4_metadata, of_full, sharing_from
from mebp.gguf.keys import DECODER_FIELDS, Keys
from mebp.gguf.proportional import proportional_factors, read_proportional
from mebp.gguf.weights import Weight

_WINDOWED, _FULL = "sliding_attention", "full_attention"
_KEYS, _VALUES = "keys of ", "values of "  # of its own, in layers of the kind that follows
_NARROW, _WIDE, _EXPERTS, _INPUTS = "narrow", "wide", "experts", "inputs"


def _attention(kind: str, queries: str, keys: str, width: str) -> tuple[Weight, ...]:
    return (
        Weight("self_attn.q_proj", "attn_q", f"{queries}h", kind),
        Weight("self_attn.k_proj", "attn_k", f"{keys}h", _KEYS + kind),
        Weight("self_attn.v_proj", "attn_v", f"{keys}h", _VALUES + kind),
        Weight("self_attn.o_proj", "attn_output", f"h{queries}", kind),
        Weight("self_attn.q_norm", "attn_q_norm", width, kind),
        Weight("self_attn.k_norm", "attn_k_norm", width, _KEYS + kind),
    )


def _gated(kind: str, inner: str) -> tuple[Weight, ...]:
    return (
        Weight("mlp.gate_proj", "ffn_gate", f"{inner}h", kind),
        Weight("mlp.up_proj", "ffn_up", f"{inner}h", kind),
        Weight("mlp.down_proj", "ffn_down", f"h{inner}", kind),
    )


_OUTER = (
    *DECODER,
    Weight("model.embed_tokens_per_layer", "per_layer_token_embd", "VL", _INPUTS, takes_lora=False),
    Weight("model.per_layer_model_projection", "per_layer_model_proj", "Lh", _INPUTS, takes_lora=False),
    Weight("model.per_layer_projection_norm", "per_layer_proj_norm", "p", _INPUTS),
)
_INNER = (
    *_attention(_WINDOWED, "q", "k", "w"),
    *_attention(_FULL, "Q", "K", "W"),
    *_gated(_NARROW, "f"),
    *_gated(_WIDE, "g"),
    Weight("input_layernorm", "attn_norm", "h"),
    Weight("post_attention_layernorm", "post_attention_norm", "h"),
    Weight("pre_feedforward_layernorm", "ffn_norm", "h"),
    Weight("post_feedforward_layernorm", "post_ffw_norm", "h"),
    Weight("layer_scalar", "layer_output_scale.weight", "1", whole=True),
    Weight("router.proj", "ffn_gate_inp", "eh", _EXPERTS, is_exact=True),
    Weight("router.scale", "ffn_gate_inp.scale", "h", _EXPERTS, whole=True),
    Weight("router.per_expert_scale", "ffn_down_exps.scale", "e", _EXPERTS, whole=True),
    Weight("experts.gate_up_proj", "ffn_gate_up_exps.weight", "eyh", _EXPERTS, whole=True),
    Weight("experts.down_proj", "ffn_down_exps.weight", "ehx", _EXPERTS, whole=True),
    Weight("post_feedforward_layernorm_1", "post_ffw_norm_1", "h", _EXPERTS),
    Weight("pre_feedforward_layernorm_2", "pre_ffw_norm_2", "h", _EXPERTS),
    Weight("post_feedforward_layernorm_2", "post_ffw_norm_2", "h", _EXPERTS),
    Weight("per_layer_input_gate", "inp_gate", "ph", _INPUTS),
    Weight("per_layer_projection", "proj", "hp", _INPUTS),
    Weight("post_per_layer_input_norm", "post_norm", "h", _INPUTS),
)
_APART = Weight("experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", "exh exh", _EXPERTS, whole=True)


def _extents(config: Mapping) -> dict[str, int]:
    """V words, h of the hidden states, f of the feed-forward network and g of a wide one. Of layers with a window q of
    all queries, k of all keys and w of a head; of the others Q, K and W. p of an input of a layer, L of those of all. e
    experts, x between the layers of one and y two of these."""
    heads, inner = config["num_attention_heads"], config["intermediate_size"]
    width, (full_width, full_keys) = config["head_dim"], of_full(config)
    expert, inputs = config.get("moe_intermediate_size") or 0, config.get("hidden_size_per_layer_input") or 0
    return {"V": config["vocab_size"], "h": config["hidden_size"], "f": inner, "g": 2 * inner, "1": 1,
            "w": width, "q": heads * width, "k": config["num_key_value_heads"] * width,
            "W": full_width, "Q": heads * full_width, "K": full_keys * full_width,
            "p": inputs, "L": inputs * config["num_hidden_layers"],
            "e": config.get("num_experts") or 0, "x": expert, "y": 2 * expert}  # fmt: skip


def _beside(config: Mapping) -> frozenset[str]:
    return frozenset({_INPUTS} if config.get("hidden_size_per_layer_input") else ())


def _kinds(config: Mapping) -> list[frozenset[str]]:
    first, found = sharing_from(config), []
    for number, kind in enumerate(config["layer_types"]):
        each = {kind, _WIDE if config.get("use_double_wide_mlp") and number >= first else _NARROW}
        if number < first:
            each.add(_KEYS + kind)
        if number < first and not (kind == _FULL and config.get("attention_k_eq_v")):
            each.add(_VALUES + kind)
        if config.get("enable_moe_block"):
            each.add(_EXPERTS)
        found.append(frozenset(each | _beside(config)))
    return found


# Of transformers' Gemma4TextConfig.
_USUAL = {"vocab_size": 262_144, "head_dim": 256, "max_position_embeddings": 131_072, "rms_norm_eps": 1e-6,
          "sliding_window": 512, "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262_144,
          "num_key_value_heads": 4}  # fmt: skip
GEMMA4 = Architecture(
    "gemma4",
    "gemma4_text",
    "Gemma4ForCausalLM",
    _OUTER,
    _INNER,
    others=(_APART,),
    kinds=_kinds,
    beside=_beside,
    extents=_extents,
    keys=Keys(
        fields={key: field for key, field in DECODER_FIELDS.items() if key != "feed_forward_length"},
        own=frozenset({*OWN_KEYS, WINDOW}),
        per_layer=frozenset({KEY_HEADS, "feed_forward_length"}),
        images=("mm.", "vision.", "audio."),
    ),
    tied=True,
    activations=("gelu_pytorch_tanh",),
    usual_theta=1e6,
    usual=_USUAL,
    scales_positions=False,
    plain_positions=("default", "proportional"),
    factors=proportional_factors,
    read_factors=read_proportional,
    own_metadata=gemma4_metadata,
    own_config=gemma4_config,
)
