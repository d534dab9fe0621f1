# SPDX-License-Identifier: Apache-2.0
"""A tiny model's configuration, made of a published one: `reduced(fields)`.

Sizes and counts shrink. Every other field stays: rotation, activations, norms, biases, scales, ties, soft caps. Of the
layers, one period of their pattern remains, with one of each kind at least.
"""

from collections.abc import Mapping, Sequence

from parts.models.configuration import defaults
from parts.models.layers import distinct, layer_kinds, mixers
from parts.public_shapes import configuration
from transformers import PreTrainedConfig

# Odd ones, so that no two can be mistaken for each other.
HIDDEN, HEADS = 96, 4
_SIZES = {
    "vocab_size": 333,
    "vocab_size_per_layer_input": 333,
    "hidden_size": HIDDEN,
    "intermediate_size": 200,
    "intermediate_size_mlp": 232,
    "num_attention_heads": HEADS,
    "sliding_window": 16,
    "sliding_window_size": 16,
    "attention_chunk_size": 16,
    "hidden_size_per_layer_input": 16,
    "laurel_rank": 8,
    # experts
    "moe_intermediate_size": 56,
    "shared_expert_intermediate_size": 56,
    "shared_intermediate_size": 56,
    "moe_shared_expert_intermediate_size": 112,
    "moe_latent_size": 48,
    # latent attention
    "q_lora_rank": 40,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "qk_head_dim": 24,
    "index_head_dim": 16,
    "index_n_heads": 4,
    "index_topk": 8,
    # recurrences
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "mamba_n_heads": 8,
    "mamba_num_heads": 8,
    "mamba_d_head": 24,
    "mamba_head_dim": 24,
    "mamba_d_ssm": 192,
    "mamba_d_state": 16,
    "ssm_state_size": 16,
    "state_size": 16,
    "mamba_dt_rank": 6,
    "time_step_rank": 6,
    "mamba_chunk_size": 16,
    "chunk_size": 16,
    # LFM2's names; its MLP has two thirds of block_ff_dim, a multiple of block_multiple_of
    "block_dim": HIDDEN,
    "conv_dim": HIDDEN,
    "conv_dim_out": HIDDEN,
    "block_ff_dim": 300,
    "block_multiple_of": 8,
    "num_heads": HEADS,
}
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_CHOSEN = ("num_experts_per_tok", "experts_per_token", "top_k_experts")
_GROUPS = ("n_group", "topk_group")
_RECURRENT_GROUPS = ("n_groups", "mamba_n_groups")
_KEYS = ("num_key_value_heads", "swa_num_key_value_heads", "num_global_key_value_heads")
_WIDTHS = ("head_dim", "swa_head_dim", "global_head_dim", "v_head_dim", "swa_v_head_dim", "rotary_dim")
_OTHERS = ("swa_num_attention_heads", "linear_num_value_heads", "query_pre_attn_scalar")
SHRUNK = (*_SIZES, *_EXPERTS, *_CHOSEN, *_GROUPS, *_RECURRENT_GROUPS, *_KEYS, *_WIDTHS, *_OTHERS)
# What looks at images computes nothing of a text.
_SIGHT = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "depth": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_heads": 2,
    "head_dim": 8,
    "global_head_dim": 8,
    "out_hidden_size": HIDDEN,
    "num_position_embeddings": 16,
    "position_embedding_size": 16,
}
_BY_LAYER = ("attn_layer_indices", "mlp_only_layers", "moe_layers", "full_attn_idxs")  # places of layers
_LEADING = ("first_k_dense_replace", "num_dense_layers")  # how many layers come first
_TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}  # the defaults' are beyond so few tokens


def reduced(fields: Mapping[str, object]) -> dict[str, object]:
    """Of the fields of a config.json."""
    config = configuration(fields)
    kept = kept_layers(layer_kinds(config), mixers(config.get_text_config()))
    count = config.get_text_config().num_hidden_layers
    text = fields.get("text_config")
    if not isinstance(text, Mapping):
        return {**_of_layers(_of_sizes(fields, config), count, kept), **_TOKENS}
    small = dict(fields)
    small["text_config"] = {**_of_layers(_of_sizes(text, config.get_text_config()), count, kept), **_TOKENS}
    small["text_config"]["pad_token_id"] = 0  # which stands in the places of images
    if isinstance(sight := fields.get("vision_config"), Mapping):
        small["vision_config"] = _of_sight(sight)
    if "mm_tokens_per_image" in fields:
        small["mm_tokens_per_image"] = 4
    return small


def kept_layers(kinds: Sequence[str], named: Sequence[str]) -> list[int]:
    """Which layers remain: a period of the pattern of `kinds`. Where there is none, each period of the pattern of
    mixers, `named`, that has a kind which no earlier one has; where there is none either, the first layers up to the
    last new kind. Two at least, since one passes nothing on."""
    count = len(kinds)
    period = _period(kinds) or _period(named) or max(kinds.index(each) for each in set(kinds)) + 1
    kept, seen = [], set()
    for begin in range(0, count, period):
        block = range(begin, min(begin + period, count))
        if {kinds[index] for index in block} - seen:
            kept += block
            seen |= {kinds[index] for index in block}
    if len(kept) == 1 < count:
        kept.append(kept[0] + 1)
    return kept


def _period(pattern: Sequence[str]) -> int | None:
    sizes = range(1, len(pattern) // 2 + 1)
    return next((size for size in sizes if list(pattern[size:]) == list(pattern[:-size])), None)


def _of_sizes(fields: Mapping[str, object], config: PreTrainedConfig) -> dict[str, object]:
    """Of the text's fields. What is None or 0 stays so: it turns something off. A size that is not said shrinks, too,
    where the default is one."""
    unsaid = {name: size for name, size in defaults(type(config)).items() if name in SHRUNK and isinstance(size, int)}
    full = {**{name: size for name, size in unsaid.items() if size}, **fields}
    small = dict(full) | {name: size for name, size in _SIZES.items() if full.get(name)}
    head = _shrink_heads(small, full)
    groups = int(full.get("n_group") or 1)
    small |= {name: 4 if groups == 1 else 8 for name in _EXPERTS if full.get(name)}
    small |= {name: min(int(full[name]), 2 if groups == 1 else 3) for name in _CHOSEN if full.get(name)}
    if groups > 1:
        small |= {"n_group": 4, "topk_group": 2}
    small |= {name: min(int(full[name]), 2) for name in _RECURRENT_GROUPS if full.get(name)}
    if values := full.get("linear_num_value_heads"):  # as many to a key head
        small["linear_num_value_heads"] = 2 * (int(values) // int(full["linear_num_key_heads"]))
    parameters = getattr(config, "rope_parameters", None) or {}
    pairs = int(head * (parameters.get("partial_rotary_factor") or 1.0)) // 2
    for name in ("rope_scaling", "rope_parameters"):
        if isinstance(full.get(name), Mapping):
            small[name] = _of_rotation(full[name], pairs)
    return small


def _shrink_heads(small: dict, full: Mapping) -> int:
    """The width of a head. Heads that are as wide together as a layer stay so, others do not."""
    heads, is_latent = int(full.get("num_attention_heads") or HEADS), bool(full.get("kv_lora_rank"))
    width = full.get("head_dim") or int(full["hidden_size"]) // heads
    head = HIDDEN // HEADS if width * heads == full["hidden_size"] else 32  # a quarter of either can be rotated
    beside = full.get("num_key_value_heads")
    for name in _KEYS:
        if keys := full.get(name):
            small[name] = HEADS if keys == heads or is_latent else 1 if keys == 1 else 2
            if name == "num_global_key_value_heads" and keys < beside:
                small[name] = 1
    if full.get("swa_num_attention_heads"):
        small["swa_num_attention_heads"] = HEADS
    for name in ("head_dim", "swa_head_dim"):
        if full.get(name):
            small[name] = _SIZES["qk_rope_head_dim"] if is_latent else head
    if full.get("global_head_dim"):
        small["global_head_dim"] = 2 * head
    for name in ("v_head_dim", "swa_v_head_dim"):
        if value := full.get(name):
            keys, size = (full["qk_nope_head_dim"], 16) if is_latent else (width, head)
            small[name] = size if value == keys else size + 8 if value > keys else size - 8
    if full.get("rotary_dim"):
        small["rotary_dim"] = int(full["rotary_dim"]) * head // width
    if scalar := full.get("query_pre_attn_scalar"):
        small["query_pre_attn_scalar"] = head if scalar == width else HIDDEN // HEADS
    return head


def _of_rotation(parameters: Mapping, pairs: int) -> dict:
    small = dict(parameters)
    for name in ("long_factor", "short_factor"):  # one for each pair
        if name in small:
            factors = small[name]
            small[name] = [factors[index * len(factors) // pairs] for index in range(pairs)]
    if "mrope_section" in small:  # pairs for each of three positions
        sections = len(small["mrope_section"])
        small["mrope_section"] = [(pairs + sections - 1 - index) // sections for index in range(sections)]
    return small


def _of_layers(fields: dict[str, object], count: int, kept: Sequence[int]) -> dict[str, object]:
    small = {**fields, "num_hidden_layers": len(kept)}
    for name, value in fields.items():
        if name in _BY_LAYER and value is not None:
            small[name] = [place for place, index in enumerate(kept) if index in value]
        elif name in _LEADING and value is not None:
            small[name] = sum(index < value for index in kept)
        elif isinstance(value, list) and len(value) == count:
            small[name] = [value[index] for index in kept]
        elif name == "hybrid_override_pattern":
            small[name] = "".join(value[index] for index in kept)
    if fields.get("num_kv_shared_layers"):
        small["num_kv_shared_layers"] = sum(index >= count - fields["num_kv_shared_layers"] for index in kept)
    if fields.get("max_window_layers"):
        small["max_window_layers"] = min(int(fields["max_window_layers"]), len(kept))
    return small


def _of_sight(fields: Mapping[str, object]) -> dict[str, object]:
    small = {name: _SIGHT.get(name, value) if value else value for name, value in fields.items()}
    if small.get("image_size"):
        small["image_size"] = 2 * int(small["patch_size"])
    if small.get("deepstack_visual_indexes"):
        small["deepstack_visual_indexes"] = [0]
    return small


def layers_of(fields: Mapping[str, object]) -> list[str]:
    """The kinds of layers that such a model has."""
    return distinct(layer_kinds(configuration(fields)))
