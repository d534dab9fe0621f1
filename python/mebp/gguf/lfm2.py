# SPDX-License-Identifier: Apache-2.0
"""LFM2: layers with a short convolution beside others that attend; after the first layers with experts, or without."""

from collections.abc import Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.gguf import WRITE_ADVICE
from mebp.gguf.architecture import WINDOW, Architecture, decoder_extents
from mebp.gguf.container import Container
from mebp.gguf.experts import EXPERT_FIELDS, check_rules, expert_extents, routed
from mebp.gguf.keys import DECODER_FIELDS, Keys
from mebp.gguf.weights import Weight

_CONV, _FULL = "conv", "full_attention"
_DENSE, _EXPERTS = "dense", "experts"
_KEY_HEADS = "attention.head_count_kv"  # of each layer; 0: it has a convolution
_DENSE_LAYERS, _GATING, _SIGMOID = "leading_dense_block_count", "expert_gating_func", 2
_DAMAGED = "download it again"

_OUTER = (
    Weight("model.embed_tokens", "token_embd", "Vh"),
    Weight("model.embedding_norm", "token_embd_norm", "h"),
    Weight("lm_head", "output", "Vh"),
)
_MIXERS = (
    Weight("operator_norm", "attn_norm", "h"),
    Weight("ffn_norm", "ffn_norm", "h"),
    Weight("conv.conv", "shortconv.conv", "hK", _CONV, is_filter=True, is_exact=True),
    Weight("conv.in_proj", "shortconv.in_proj", "3h", _CONV),
    Weight("conv.out_proj", "shortconv.out_proj", "hh", _CONV),
    Weight("self_attn.q_proj", "attn_q", "qh", _FULL),
    Weight("self_attn.k_proj", "attn_k", "kh", _FULL),
    Weight("self_attn.v_proj", "attn_v", "kh", _FULL),
    Weight("self_attn.out_proj", "attn_output", "hq", _FULL),
    Weight("self_attn.q_layernorm", "attn_q_norm", "w", _FULL),
    Weight("self_attn.k_layernorm", "attn_k_norm", "w", _FULL),
)


def _dense(kind: str = "") -> tuple[Weight, ...]:
    return (
        Weight("feed_forward.w1", "ffn_gate", "fh", kind),
        Weight("feed_forward.w3", "ffn_up", "fh", kind),
        Weight("feed_forward.w2", "ffn_down", "hf", kind),
    )


def _extents(config: Mapping) -> dict[str, int]:
    """K is how wide a convolution is, and 3 what it takes for each of the hidden states' numbers."""
    return {**decoder_extents(config), "K": config["conv_L_cache"], "3": 3 * config["hidden_size"]}


def _kinds(config: Mapping) -> list[frozenset[str]]:
    return [frozenset({kind}) for kind in config["layer_types"]]


def _kinds_with_experts(config: Mapping) -> list[frozenset[str]]:
    dense = config["num_dense_layers"]
    return [frozenset({kind, _DENSE if number < dense else _EXPERTS})
            for number, kind in enumerate(config["layer_types"])]  # fmt: skip


def _metadata(config: Mapping, file: Path) -> dict[str, object]:
    check_rules(config, {"conv_bias": False}, "lfm2", file)
    found: dict[str, object] = {_KEY_HEADS: _key_heads(config, file)}
    inner = config["intermediate_size"]
    if config.get("block_auto_adjust_ff_dim", True):
        inner = int(2 * inner / 3)
        factor, multiple = config.get("block_ffn_dim_multiplier", 1.0), config.get("block_multiple_of", 256)
        if factor is not None:
            inner = multiple * -(-int(factor * inner) // multiple)
    return {**found, "feed_forward_length": inner}


def _metadata_with_experts(config: Mapping, file: Path) -> dict[str, object]:
    rules = {"conv_bias": False, "norm_topk_prob": True, "use_expert_bias": True, "routed_scaling_factor": 1.0}
    check_rules(config, rules, "lfm2moe", file)
    return {_KEY_HEADS: _key_heads(config, file), _DENSE_LAYERS: int(config.get("num_dense_layers", 2)),
            _GATING: _SIGMOID}  # fmt: skip


def _key_heads(config: Mapping, file: Path) -> list[int]:
    every = config["num_attention_heads"]
    heads, width = config.get("num_key_value_heads") or every, config.get("head_dim")
    if width and width * every != config["hidden_size"]:
        raise Error(f"{file}: has {every} heads of {width}, and llama.cpp wants as many numbers in them as the "
                    f"hidden_size, {config['hidden_size']}; {WRITE_ADVICE}")  # fmt: skip
    kinds, count = config.get("layer_types"), config["num_hidden_layers"]
    if kinds is None:
        attend = config.get("full_attn_idxs")
        kinds = [_FULL if attend is None or number in attend else _CONV for number in range(count)]
    if len(kinds) != count or not {*kinds} <= {_CONV, _FULL}:
        raise Error(f"{file}: has layer_types that llama.cpp does not know in 'lfm2'; {WRITE_ADVICE}")
    return [heads if kind == _FULL else 0 for kind in kinds]


def _config(container: Container, config: dict) -> dict[str, object]:
    name, count = container.text("general.architecture"), config["num_hidden_layers"]
    key = f"{name}.{_KEY_HEADS}"
    each = container.wholes(key) if isinstance(container.metadata.get(key), list) else None
    if each is None:
        each = [container.whole(key, needed=True)] * count
    numbers = {number for number in each if number}
    if len(each) != count or len(numbers) > 1 or any(number < 0 for number in each):
        raise Error(f"{container.path}: '{key}' is {str(each)[:60]}, which is not one number of heads, or 0, for "
                    f"each of {count} layers; {_DAMAGED}")  # fmt: skip
    return {
        "num_key_value_heads": next(iter(numbers), config["num_attention_heads"]),
        "layer_types": [_FULL if number else _CONV for number in each],
        "block_auto_adjust_ff_dim": False,  # the file's number is what comes of it
        "conv_bias": False,
    }


def _config_with_experts(container: Container, config: dict) -> dict[str, object]:
    name, count = container.text("general.architecture"), config["num_hidden_layers"]
    dense = container.whole(f"{name}.{_DENSE_LAYERS}", most=count) or 0
    return {**_config(container, config), "num_dense_layers": dense, "use_expert_bias": True, "norm_topk_prob": True}


_FIELDS = {**DECODER_FIELDS, "attention.layer_norm_rms_epsilon": "norm_eps", "shortconv.l_cache": "conv_L_cache"}
_ONLY = {WINDOW: 0}
LFM2 = Architecture(
    "lfm2",
    "lfm2",
    "Lfm2ForCausalLM",
    _OUTER,
    (*_MIXERS, *_dense()),
    kinds=_kinds,
    extents=_extents,
    keys=Keys(fields=_FIELDS, per_layer=frozenset({_KEY_HEADS}), only=_ONLY),
    tied=True,
    usual_theta=1e6,
    older_fields={"block_ff_dim": "intermediate_size"},
    own_metadata=_metadata,
    own_config=_config,
)
LFM2_MOE = Architecture(
    "lfm2moe",
    "lfm2_moe",
    "Lfm2MoeForCausalLM",
    _OUTER,
    (
        *_MIXERS,
        *_dense(_DENSE),
        *routed("feed_forward", _EXPERTS),
        Weight("feed_forward.expert_bias", "exp_probs_b.bias", "e", _EXPERTS, whole=True),
    ),
    kinds=_kinds_with_experts,
    extents=lambda config: {**expert_extents(config), **_extents(config)},
    keys=Keys(
        fields={**_FIELDS, **EXPERT_FIELDS},
        own=frozenset({_DENSE_LAYERS}),
        per_layer=frozenset({_KEY_HEADS}),
        only={**_ONLY, _GATING: _SIGMOID},
    ),
    tied=True,
    usual_theta=1e6,
    own_metadata=_metadata_with_experts,
    own_config=_config_with_experts,
)
