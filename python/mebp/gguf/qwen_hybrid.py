# SPDX-License-Identifier: Apache-2.0
"""Qwen3.5 and Qwen3-Next: layers of gated DeltaNet beside others that attend, whose queries come with gates.

Each key head has several value heads. transformers has those of one key head side by side; llama.cpp has the first of
each key head, then the second of each, in Qwen3.5 alone. Qwen3-Next's weights join what belongs to one key head, and
llama.cpp has that apart.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from mebp.errors import Error
from mebp.gguf import READ_ADVICE, WRITE_ADVICE
from mebp.gguf.architecture import Architecture, decoder_extents
from mebp.gguf.container import Container
from mebp.gguf.dense import DECODER, GATED
from mebp.gguf.experts import EXPERT_FIELDS, JOINED, SHARED, SHARED_FIELDS, check_rules, expert_extents, routed
from mebp.gguf.keys import DECODER_FIELDS, Keys
from mebp.gguf.weights import AS_IT_IS, Change, Weight, check_count, whole_number

LINEAR, FULL = "linear_attention", "full_attention"
_INTERVAL, _USUAL_INTERVAL = "full_attention_interval", 4
_SECTIONS, _USUAL_SECTIONS = "rope.dimension_sections", (11, 11, 10)  # of positions in time, height and width
_SHARE = 0.25  # of a head, which positions turn where config.json does not say
_EPSILON = 1e-6  # of the norms; llama.cpp has that of the queries and keys of a DeltaNet of the same key
_DAMAGED = "download it again"
_WIDEST = 1 << 16
_MOST_RATE = 2.0**-22  # by which two libraries may differ in a rate


def _heads(config: Mapping, what: str) -> tuple[int, int, int]:
    """Key heads, value heads of each, and the width of both."""
    keys, values, width, other = (whole_number(config, f"linear_{each}", what) for each in
                                  ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim"))  # fmt: skip
    if width != other:
        raise Error(f"{what}: the base model has key heads of {width} and value heads of {other}, and llama.cpp has "
                    f"heads of one width; {WRITE_ADVICE}")  # fmt: skip
    return keys, values // keys, width


def _tiled(keys: int, each: int, width: int) -> np.ndarray:
    """Value heads of `width` numbers, from the first of each key head on."""
    return np.arange(keys * each * width).reshape(keys, each, width).swapaxes(0, 1).reshape(-1)


def _of_values(config: Mapping, module: str, count: int, what: str) -> np.ndarray:
    keys, each, width = _heads(config, what)
    check_count(keys * each * width, module, count, what)
    return _tiled(keys, each, width)


def _of_heads(config: Mapping, module: str, count: int, what: str) -> np.ndarray:
    keys, each, _ = _heads(config, what)
    check_count(keys * each, module, count, what)
    return _tiled(keys, each, 1)


def _of_channels(config: Mapping, module: str, count: int, what: str) -> np.ndarray:
    """Queries, keys and values, of which the last are in another order."""
    keys, each, width = _heads(config, what)
    check_count((2 + each) * keys * width, module, count, what)
    before = 2 * keys * width
    return np.concatenate([np.arange(before), before + _tiled(keys, each, width)])


def _apart(config: Mapping, module: str, count: int, what: str) -> np.ndarray:
    """All queries, keys, values and gates, where those of one key head were side by side."""
    keys, each, width = _heads(config, what)
    check_count((2 + 2 * each) * keys * width, module, count, what)
    numbers = np.arange(count).reshape(keys, -1)
    parts = np.split(numbers, np.cumsum([width, width, each * width]), axis=1)
    return np.concatenate([part.reshape(-1) for part in parts])


def _rates(logarithms: np.ndarray) -> np.ndarray:
    return -np.exp(logarithms.astype(np.float64)).astype(np.float32)


def _logarithms(rates: np.ndarray, what: str) -> np.ndarray:
    """The nearest number in bf16 where that gives the rate, for published models have it so."""
    if not (rates < 0).all():
        raise Error(f"{what}: a tensor of rates, ssm_a, has numbers that are not below 0; {_DAMAGED}")
    found = np.log(-rates.astype(np.float64)).astype(np.float32)
    short = ((found.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.abs(_rates(short) - rates) <= _MOST_RATE * -rates, short, found)


_RATE = Change(_rates, _logarithms)
_ATTENTION = (
    Weight("self_attn.q_proj", "attn_q", "Qh", FULL),
    Weight("self_attn.k_proj", "attn_k", "kh", FULL),
    Weight("self_attn.v_proj", "attn_v", "kh", FULL),
    Weight("self_attn.o_proj", "attn_output", "hq", FULL),
    Weight("self_attn.q_norm", "attn_q_norm", "w", FULL),
    Weight("self_attn.k_norm", "attn_k_norm", "w", FULL),
    Weight("input_layernorm", "attn_norm", "h"),
    Weight("post_attention_layernorm", "post_attention_norm", "h"),
)
_TILED = (
    Weight("linear_attn.in_proj_qkv", "attn_qkv", "ch", LINEAR, rows=_of_channels),
    Weight("linear_attn.in_proj_z", "attn_gate", "vh", LINEAR, rows=_of_values),
    Weight("linear_attn.in_proj_b", "ssm_beta", "nh", LINEAR, rows=_of_heads),
    Weight("linear_attn.in_proj_a", "ssm_alpha", "nh", LINEAR, rows=_of_heads),
    Weight("linear_attn.conv1d", "ssm_conv1d", "cK", LINEAR, rows=_of_channels, is_filter=True, is_exact=True),
    Weight("linear_attn.A_log", "ssm_a", "n", LINEAR, whole=True, rows=_of_heads, change=_RATE),
    Weight("linear_attn.dt_bias", "ssm_dt.bias", "n", LINEAR, whole=True, rows=_of_heads),
    Weight("linear_attn.norm", "ssm_norm", "d", LINEAR, change=AS_IT_IS),
    Weight("linear_attn.out_proj", "ssm_out", "hv", LINEAR, columns=_of_values),
)
_JOINED = (
    Weight("linear_attn.in_proj_qkvz", "attn_qkv attn_gate", "ch vh", LINEAR, rows=_apart),
    Weight("linear_attn.in_proj_ba", "ssm_ba", "Nh", LINEAR),
    Weight("linear_attn.conv1d", "ssm_conv1d", "cK", LINEAR, is_filter=True, is_exact=True),
    Weight("linear_attn.A_log", "ssm_a", "n", LINEAR, whole=True, change=_RATE),
    Weight("linear_attn.dt_bias", "ssm_dt.bias", "n", LINEAR, whole=True),
    Weight("linear_attn.norm", "ssm_norm", "d", LINEAR, change=AS_IT_IS),
    Weight("linear_attn.out_proj", "ssm_out", "hv", LINEAR),
)
# In files of 2025: by key heads, as in transformers.
_BY_KEY_HEADS = Weight("linear_attn.in_proj_qkvz", "ssm_in", "Zh", LINEAR)


def _extents(others: Callable[[Mapping], dict[str, int]], config: Mapping) -> dict[str, int]:
    """Q of queries and their gates, c channels of a convolution K wide, v of all value heads, of which there are n with
    d numbers each; N is twice n, and Z is c and v."""
    found = others(config)
    heads, width = config["linear_num_value_heads"], config["linear_value_head_dim"]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    return {**found, "Q": 2 * found["q"], "c": 2 * keys + heads * width, "K": config["linear_conv_kernel_dim"],
            "v": heads * width, "n": heads, "N": 2 * heads, "d": width,
            "Z": 2 * keys + 2 * heads * width}  # fmt: skip


def _kinds(config: Mapping) -> list[frozenset[str]]:
    return [frozenset({kind}) for kind in config["layer_types"]]


def _order(count: int, interval: int) -> list[str]:
    return [LINEAR if (number + 1) % interval else FULL for number in range(count)]


_FIELDS = {
    "ssm.conv_kernel": "linear_conv_kernel_dim",
    "ssm.state_size": "linear_key_head_dim",
    "ssm.group_count": "linear_num_key_heads",
    "ssm.time_step_rank": "linear_num_value_heads",
}
_OWN = {_INTERVAL, "ssm.inner_size", "nextn_predict_layers"}
_OF_EXPERTS = {"feed_forward_length": "every layer has experts"}
# All but the first are of Qwen3-Next; the others have no such fields.
_RULES = {"attention_bias": False, "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}


def _metadata(name: str, in_space: bool, config: Mapping, file: Path) -> dict[str, object]:
    """in_space: llama.cpp has positions in time, height and width."""
    interval, kinds = config.get(_INTERVAL) or _USUAL_INTERVAL, config.get("layer_types")
    if kinds:
        interval = kinds.index(FULL) + 1 if FULL in kinds else len(kinds) + 1
    if kinds and (len(kinds) != config["num_hidden_layers"] or kinds != _order(len(kinds), interval)):
        raise Error(f"{file}: has layers that attend in an order that llama.cpp does not know; {WRITE_ADVICE}")
    heads, keys = config["linear_num_value_heads"], config["linear_num_key_heads"]
    width = config["linear_value_head_dim"]
    if width != config["linear_key_head_dim"] or heads % keys:
        raise Error(f"{file}: has {heads} value heads of {width} and {keys} key heads of "
                    f"{config['linear_key_head_dim']}, and llama.cpp has heads of one width, and as many value heads "
                    f"for each key head; {WRITE_ADVICE}")  # fmt: skip
    check_rules(config, _RULES, name, file)
    if not _is_usual(config["rms_norm_eps"]):
        raise Error(f"{file}: has rms_norm_eps {config['rms_norm_eps']:g}, and llama.cpp computes the norms of queries "
                    f"and keys otherwise unless it is {_EPSILON:g}; {WRITE_ADVICE}")  # fmt: skip
    found: dict[str, object] = {_INTERVAL: interval, "ssm.inner_size": heads * width}
    return {**found, _SECTIONS: _sections(config)} if in_space else found


def _is_usual(epsilon: float) -> bool:
    return math.isclose(epsilon, _EPSILON, rel_tol=1e-6)


def _sections(config: Mapping) -> list[int]:
    """llama.cpp wants no more of them than a head has; in a text they are of one position, so none is missed."""
    rope = config.get("rope_parameters") or {}
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    half = int(width * rope.get("partial_rotary_factor", config.get("partial_rotary_factor", _SHARE))) // 2
    given = rope.get("mrope_section") or _USUAL_SECTIONS
    return [*(min(each, -(-(half - number) // 3)) for number, each in enumerate(given)), 0]


def _config(in_space: bool, container: Container, config: dict) -> dict[str, object]:
    name = container.text("general.architecture")
    count, heads = config["num_hidden_layers"], config["linear_num_value_heads"]
    keys, width = config["linear_num_key_heads"], config["linear_key_head_dim"]
    inner = container.whole(f"{name}.ssm.inner_size", least=1, needed=True)
    if heads % keys or inner != heads * width:
        raise Error(f"{container.path}: '{name}.ssm.inner_size' is {inner}, and {heads} value heads of {width} for "
                    f"{keys} key heads make another; {_DAMAGED}")  # fmt: skip
    if not _is_usual(config["rms_norm_eps"]):
        raise Error(f"{container.path}: '{name}.attention.layer_norm_rms_epsilon' is {config['rms_norm_eps']:g}, and "
                    f"only {_EPSILON:g} can be read here; {READ_ADVICE}")  # fmt: skip
    interval = container.whole(f"{name}.{_INTERVAL}", least=1) or _USUAL_INTERVAL
    found = {"linear_value_head_dim": width, "layer_types": _order(count, interval), _INTERVAL: interval}
    if in_space:
        _read_sections(container, f"{name}.{_SECTIONS}", config["rope_parameters"])
    return found


def _read_sections(container: Container, key: str, rope: dict) -> None:
    """Raises mebp.Error where llama.cpp would turn a part of a text's heads by no position."""
    sections = container.wholes(key)
    if sections is None:
        return
    if len(sections) not in (3, 4) or not _is_covered(sections):
        raise Error(f"{container.path}: '{key}' is {str(sections)[:60]}, which cannot be read here; {READ_ADVICE}")
    rope["mrope_section"] = sections[:3]


def _is_covered(sections: list[int]) -> bool:
    """Whether each pair of a head is turned by one of the three positions, which are one in a text."""
    count = sum(sections)
    return min(sections) >= 0 < count <= _WIDEST and all(number < 3 * sections[number % 3] for number in range(count))


def _made(
    name: str, model_type: str, model_class: str, linear: tuple[Weight, ...], in_space: bool, has_experts: bool
) -> Architecture:
    fields = {**DECODER_FIELDS, **_FIELDS}
    if has_experts:
        fields = {**fields, **EXPERT_FIELDS, **SHARED_FIELDS}
        del fields["feed_forward_length"]
    return Architecture(
        name,
        model_type,
        model_class,
        DECODER,
        (*_ATTENTION, *linear, *((*routed("mlp"), *SHARED) if has_experts else GATED)),
        kinds=_kinds,
        extents=partial(_extents, expert_extents if has_experts else decoder_extents),
        keys=Keys(
            fields=fields,
            own=frozenset({*_OWN, *([_SECTIONS] if in_space else [])}),
            without_effect=_OF_EXPERTS if has_experts else {},
        ),
        norm_offset=True,
        turned_part=_SHARE,
        others=(_BY_KEY_HEADS, JOINED),
        own_metadata=partial(_metadata, name, in_space),
        own_config=partial(_config, in_space),
    )


QWEN3_5 = _made("qwen35", "qwen3_5_text", "Qwen3_5ForCausalLM", _TILED, in_space=True, has_experts=False)
QWEN3_5_MOE = _made("qwen35moe", "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", _TILED, in_space=True, has_experts=True)
QWEN3_NEXT = _made("qwen3next", "qwen3_next", "Qwen3NextForCausalLM", _JOINED, in_space=False, has_experts=True)
