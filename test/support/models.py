# SPDX-License-Identifier: Apache-2.0
"""Tiny random models by family, of odd sizes: `build("llama", num_hidden_layers=1)`."""

from pathlib import Path

import torch
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from mebp.extras import RANGES, is_older

_DECODER = {
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "intermediate_size": 200,
    "vocab_size": 333,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_WITHOUT_HEAD_SIZE = {name: value for name, value in _DECODER.items() if name != "head_dim"}
_GEMMA = {
    **_DECODER,
    "tie_word_embeddings": True,
    "sliding_window": 16,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "query_pre_attn_scalar": 24,
}
_EXPERTS = {
    "num_experts": 6,
    "num_local_experts": 6,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 56,
}
_LATENT = {
    **{name: value for name, value in _DECODER.items() if name != "head_dim"},
    "num_key_value_heads": 4,
    "q_lora_rank": 40,
    "kv_lora_rank": 35,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 14,
    "v_head_dim": 20,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 56,
    "n_routed_experts": 6,
    "num_experts_per_tok": 3,
    "n_group": 3,
    "topk_group": 2,
}
_GEMMA4 = {
    **_GEMMA,
    "model_type": "gemma4_text",
    "global_head_dim": 40,
    "hidden_size_per_layer_input": 0,
    "num_kv_shared_layers": 0,
}
_LINEAR_ATTENTION = {
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
    "linear_key_head_dim": 12,
    "linear_value_head_dim": 10,
}
_GPT2 = {
    "n_embd": 60,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 128,
    "vocab_size": 211,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_FAMILIES: dict[str, dict] = {
    "llama": _DECODER,
    "qwen2": {**_DECODER, "tie_word_embeddings": True},
    "qwen3": _DECODER,
    "mistral": {**_DECODER, "sliding_window": None},
    "phi3": _DECODER,
    "gemma3_text": _GEMMA,
    "gpt2": {**_GPT2, "activation_function": "gelu"},
    "afmoe": {
        **_DECODER,
        **_EXPERTS,
        "num_dense_layers": 1,
        "sliding_window": 9,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
    "apertus": _DECODER,
    "arcee": _DECODER,
    "cohere": {**_DECODER, "logit_scale": 0.4},
    "falcon": {**_WITHOUT_HEAD_SIZE, "alibi": False},
    "gemma2": {**_GEMMA, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0},
    "glm": {**_DECODER, "pad_token_id": 0},
    "gpt_neo": {
        **_DECODER,
        "num_layers": 3,
        "num_heads": 4,
        "window_size": 7,
        "attention_types": [[["global", "local", "global"], 1]],
    },
    "gpt_neox": _DECODER,
    "gptj": {**_GPT2, "rotary_dim": 8},
    "granite": {**_DECODER, "logits_scaling": 3.0},
    "helium": _DECODER,
    "nanochat": _DECODER,
    "nemotron": _DECODER,
    "olmo": _DECODER,
    "opt": {**_DECODER, "ffn_dim": 200, "word_embed_proj_dim": 96},
    "persimmon": {**_WITHOUT_HEAD_SIZE, "qk_layernorm": True},
    "phi": _DECODER,
    "qwen2_moe": {**_DECODER, **_EXPERTS, "shared_expert_intermediate_size": 72, "norm_topk_prob": True},
    "qwen3_moe": {**_DECODER, **_EXPERTS, "mlp_only_layers": [1]},
    "glm4_moe": {**_DECODER, **_EXPERTS, "n_group": 3, "topk_group": 2, "first_k_dense_replace": 1},
    "granitemoe": {**_DECODER, **_EXPERTS},
    # So far apart that a token's weights are not all 1.
    "phimoe": {
        **_DECODER,
        **_EXPERTS,
        "num_experts_per_tok": 2,
        "router_jitter_noise": 0.3,
        "attention_bias": True,
        "lm_head_bias": True,
    },
    "deepseek_v2": {**_LATENT, "topk_method": "group_limited_greedy"},
    "deepseek_v3": _LATENT,
    "minicpm3": {**_LATENT, "v_head_dim": 30},
    "stablelm": {**_WITHOUT_HEAD_SIZE, "qk_layernorm": True},
    "granite_swa": {**_DECODER, "sliding_window": 9},
    "granitemoe_swa": {**_DECODER, **_EXPERTS, "sliding_window": 9},
    "gpt_oss": {**_DECODER, **_EXPERTS, "intermediate_size": 64, "sliding_window": 9},
    "vaultgemma": {**_GEMMA, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0},
    "openai-gpt": _GPT2,
    "gpt_neox_japanese": _WITHOUT_HEAD_SIZE,
    "bloom": {**_DECODER, "n_layer": 2},
    "mpt": {
        "d_model": 96,
        "n_heads": 12,
        "n_layers": 2,
        "max_seq_len": 128,
        "vocab_size": 333,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": True,
        "attn_config": {"clip_qkv": 0.4},
    },
    "falcon_alibi": {**_WITHOUT_HEAD_SIZE, "model_type": "falcon", "alibi": True, "multi_query": False, "bias": True},
    "lfm2": {**_DECODER, "layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False},
    "lfm2_moe": {
        **_DECODER,
        **_EXPERTS,
        "layer_types": ["conv", "full_attention", "conv"],
        "num_dense_layers": 1,
        "tie_word_embeddings": True,
    },
    "qwen3_5_text": {**_DECODER, **_LINEAR_ATTENTION},
    "qwen3_5_moe_text": {**_DECODER, **_LINEAR_ATTENTION, **_EXPERTS, "shared_expert_intermediate_size": 72},
    "gemma4_small": {
        **_GEMMA4,
        "num_hidden_layers": 6,
        "layer_types": [*_GEMMA["layer_types"], "sliding_attention", "sliding_attention", "full_attention"],
        "hidden_size_per_layer_input": 18,
        "vocab_size_per_layer_input": 333,
        "num_kv_shared_layers": 3,
        "use_double_wide_mlp": True,
    },
    "gemma4_experts": {
        **_GEMMA4,
        **_EXPERTS,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "enable_moe_block": True,
        "top_k_experts": 3,
    },
    "olmo_hybrid": {**_DECODER, **_LINEAR_ATTENTION},
    "qwen3_next": {**_DECODER, **_LINEAR_ATTENTION, **_EXPERTS, "shared_expert_intermediate_size": 72},
    "gpt2_tanh": {**_GPT2, "model_type": "gpt2", "activation_function": "gelu_new"},
}
IS_NEWEST = not is_older("transformers", RANGES["transformers"].last)
_LATER = () if IS_NEWEST else ("granitemoe",)  # whose experts older ones compute in a way of their own
ALL_FAMILIES = tuple(
    family
    for family, fields in _FAMILIES.items()
    if IS_NEWEST or (fields.get("model_type", family) in CONFIG_MAPPING and family not in _LATER)
)
# Where all would take long.
FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "phi3", "gemma3_text", "gpt2", "gpt2_tanh")


def configure(family: str, **overrides: object) -> PreTrainedConfig:
    return AutoConfig.for_model(**{"model_type": family, **_FAMILIES[family], **overrides})


def is_recurrent(model: PreTrainedModel) -> bool:
    """Whether it has layers of gated DeltaNet."""
    return "linear_attention" in (getattr(model.config, "layer_types", None) or ())


def build(family: str, seed: int = 0, dtype: torch.dtype = torch.float32, **overrides: object) -> PreTrainedModel:
    """A random model in eval mode; every parameter is random, norms and biases too, so that none can be mistaken for
    another. `overrides` replace fields of the configuration."""
    config = configure(family, **overrides)
    generator = torch.Generator().manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False)
    if model._can_set_experts_implementation():
        model.set_experts_implementation("eager")  # in any type
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_scale = parameter.dim() == 1 and name.endswith("weight") and not _is_offset(family)
            parameter.copy_(1 + 0.2 * noise if is_scale else noise * (0.2 if parameter.dim() == 1 else 0.08))
            if family == "gpt_oss" and name.endswith("gate_up_proj"):
                parameter.mul_(8)  # beyond the bounds of its gates
        for name, buffer in model.named_buffers():
            if name.endswith(("correction_bias", "feed_forward.expert_bias")):  # by which routers choose
                buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))
    return model.to(dtype).eval()


def _is_offset(family: str) -> bool:
    """Whether norms multiply by 1 + weight."""
    return "gemma" in family or family == "nemotron"


def save(model: PreTrainedModel, folder: Path, **options: object) -> Path:
    """Saves as save_pretrained does (max_shard_size=... shards) and returns the folder."""
    model.save_pretrained(folder, **options)
    return folder


def token_ids(model: PreTrainedModel, batch: int, sequence: int, seed: int = 0) -> torch.Tensor:
    """Random int64 ids [batch, sequence]."""
    return torch.randint(
        model.config.vocab_size, (batch, sequence), generator=torch.Generator().manual_seed(seed), dtype=torch.int64
    )
