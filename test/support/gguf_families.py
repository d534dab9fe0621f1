# SPDX-License-Identifier: Apache-2.0
"""Tiny models of the types whose layers all attend, and which llama.cpp computes in ways of their own."""

from copy import deepcopy

from transformers import PreTrainedModel

from support import models
from support.gguf_adapters import as_published

# Model types, the tiny models that they are made of, and what they have otherwise.
FAMILIES: dict[str, tuple[str, dict]] = {
    "gemma": ("gemma2", {"model_type": "gemma", "layer_types": None, "sliding_window": None}),
    "gemma2": ("gemma2", {}),
    "mixtral": ("llama", {"model_type": "mixtral", "num_local_experts": 6, "num_experts_per_tok": 3}),
    "qwen2_moe": ("qwen2_moe", {"norm_topk_prob": False}),
    "qwen3_moe": ("qwen3_moe", {"mlp_only_layers": [], "norm_topk_prob": True}),
    "smollm3": ("llama", {"model_type": "smollm3", "num_hidden_layers": 5}),
    "granite": ("granite", {"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.25}),
    "olmo2": ("llama", {"model_type": "olmo2"}),
}
EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe")


def build(family: str, **fields: object) -> PreTrainedModel:
    base, own = FAMILIES[family]
    model = as_published(models.build(base, **deepcopy({**own, **fields})))
    model.set_attn_implementation("eager")  # no other bends the scores
    return model
