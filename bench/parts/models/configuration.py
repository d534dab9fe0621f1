# SPDX-License-Identifier: Apache-2.0
"""A configuration of any of transformers' model types that makes a model of some thousand parameters."""

import inspect
from functools import cache

from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from mebp.exporter.encoders import model_types
from mebp.exporter.text_parts import TEXT_PARTS
from mebp.tasks import CAUSAL, ENCODING

# What configurations call the sizes that make a model large. Odd ones, so that no two can be mistaken for each other.
_SIZES = {
    "vocab_size": 333,
    "max_position_embeddings": 512,
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "intermediate_size": 200,
    "embedding_size": 40,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
    # under names of their own
    "d_model": 96,
    "n_embd": 96,
    "emb_dim": 96,
    "n_layer": 3,
    "n_layers": 3,
    "num_layers": 3,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "attention_heads": 4,
    "n_positions": 512,
    "n_ctx": 512,
    "max_seq_len": 512,
    "ffn_dim": 200,
    "dim_ff": 200,
    "dff": 200,
    "d_inner": 200,
    "dim_head": 24,
    "kv_channels": 24,
    "rotary_dim": 12,
    "query_pre_attn_scalar": 24,
    "decoder_layers": 2,
    "encoder_layers": 2,
    "decoder_attention_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_ffn_dim": 200,
    "encoder_ffn_dim": 200,
    # experts
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "moe_num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_k": 2,
    "moe_topk": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 56,
    "expert_ffn_hidden_size": 56,
    "ffn_hidden_size": 200,
    "shared_expert_intermediate_size": 56,
    "shared_intermediate_size": 56,
    # latent attention
    "q_lora_rank": 40,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "index_head_dim": 16,
    "index_n_heads": 4,
    "index_topk": 8,
    # layers of other kinds
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "mamba_n_heads": 8,
    "mamba_num_heads": 8,
    "mamba_d_state": 16,
    "mamba_d_head": 24,
    "mamba_head_dim": 24,
    "state_size": 16,
    "ssm_state_size": 16,
    "hidden_size_per_layer_input": 16,
    "vocab_size_per_layer_input": 333,
    "num_kv_shared_layers": 0,
    "laurel_rank": 8,
}
# Hides nothing of a longer sequence unless it is small; a type without one keeps none.
_WINDOWS = {"sliding_window": 16, "attention_window_size": 16, "local_attention": 32, "window_size": 16}

# These compare ids with the padding's.
_PADDED = (
    "camembert",
    "data2vec-text",
    "ibert",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)

# What a type needs besides.
_OF_TYPE = {
    **{name: {"pad_token_id": 1} for name in _PADDED},
    "bamba": {"attn_layer_indices": [1]},
    "cpmant": {"prompt_length": 4, "prompt_types": 4, "segment_types": 4},
    "dots1": {"n_shared_experts": 1},
    "electra": {"embedding_size": 96},
    "falcon": {"num_kv_heads": 2},
    "falcon_h1": {"mamba_d_ssm": 192},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "gpt_neo": {"attention_types": [[["global", "local", "global"], 1]]},
    "llama4_text": {"intermediate_size_mlp": 200, "attention_chunk_size": 16},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv"]},
    "mamba2": {"num_heads": 8, "head_dim": 24, "n_groups": 1},
    "modernbert-decoder": {"pad_token_id": 0},
    "nomic_bert": {"pad_token_id": 0},
    "phimoe": {"router_jitter_noise": 0.3},  # or nearly every weight of an expert would be 1, without a gradient
    "qwen4_exp_text": {"ngram_vocab_size_base": 500},
    "reformer": {"attn_layers": ["local", "local"], "axial_pos_embds": False, "is_decoder": True},
    "zaya": {"num_experts_per_tok": 1},
}


# Other configurations that models of a type are published with: each is tried where the type has such fields.
_VARIANTS = {
    "one key and value head": {"num_key_value_heads": 1, "num_kv_heads": 1},
    "biases": {"attention_bias": True, "mlp_bias": True, "qkv_bias": True, "use_bias": True, "add_qkv_bias": True},
    "biases by position": {"alibi": True},
    "gelu": {"hidden_act": "gelu", "hidden_activation": "gelu", "activation_function": "gelu"},
    "norms of heads": {"qk_layernorm": True},
    "groups of queries with their key and value": {"new_decoder_architecture": True},
    "queries, keys and values of each head": {"multi_query": False, "num_kv_heads": 4},
}
# Of latent attention, which has as many key heads as query heads.
_LATENT_VARIANTS = {
    "biases": _VARIANTS["biases"],
    "gelu": _VARIANTS["gelu"],
    "queries of full rank": {"q_lora_rank": None},
    "rotation in halves": {"rope_interleave": False},
    "wide values": {"v_head_dim": 40},
    "groups of experts": {
        "n_routed_experts": 8,
        "n_group": 4,
        "topk_group": 2,
        "num_experts_per_tok": 3,
        "topk_method": "group_limited_greedy",
    },
}


def known_types() -> list[str]:
    """All that are tried, in alphabetical order, models whose text is trained with them; a task that is not causal
    stands behind a type: "bert, fill-mask"."""
    others = {task: model_types(task) for task in ENCODING}
    causal = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *TEXT_PARTS}
    return sorted([*causal, *(f"{name}, {task}" for task, names in others.items() for name in names)])


def type_and_task(name: str) -> tuple[str, str]:
    """Of one of these."""
    model_type, _, task = name.partition(", ")
    return model_type, task or CAUSAL


def list_variants(model_type: str) -> dict[str, dict[str, object]]:
    """What to give make_configuration besides, by what it is called; only what differs from the type's own."""
    known = defaults(CONFIG_MAPPING[model_type])
    tied = getattr(make_configuration(model_type), "tie_word_embeddings", False)
    variants = {"embeddings not tied" if tied else "tied embeddings": {"tie_word_embeddings": not tied}}
    for label, fields in (_LATENT_VARIANTS if "kv_lora_rank" in known else _VARIANTS).items():
        given = {name: value for name, value in fields.items() if name in known and known[name] != value}
        if given:
            variants[label] = given
    return variants


def make_configuration(model_type: str, **fields: object) -> PreTrainedConfig:
    """With these fields otherwise. Raises what transformers raises where the sizes do not go together."""
    kind = CONFIG_MAPPING[model_type]
    known = defaults(kind)
    renamed = getattr(kind, "attribute_map", {})
    given = {renamed.get(name, name): size for name, size in _SIZES.items()}
    given |= {name: size for name, size in _WINDOWS.items() if isinstance(known.get(name), int)}
    given = {name: size for name, size in given.items() if name in known}
    if "kv_lora_rank" in given:
        given["num_key_value_heads"] = given["num_attention_heads"]
    config = kind(**{**given, **_OF_TYPE.get(model_type, {}), **fields})
    config.use_cache = False
    return config


@cache
def defaults(kind: type[PreTrainedConfig]) -> dict[str, object]:
    """The parameters of a configuration's class with their defaults."""
    return {name: parameter.default for name, parameter in inspect.signature(kind.__init__).parameters.items()}
