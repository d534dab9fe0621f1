# SPDX-License-Identifier: Apache-2.0
"""Tiny models of Gemma 4's kinds, as llama.cpp has them."""

from copy import deepcopy

import torch
from transformers import PreTrainedModel

from support import models

W, F = "sliding_attention", "full_attention"
NO_EXPERTS = dict.fromkeys(("num_experts", "num_local_experts", "num_experts_per_tok", "top_k_experts",
                            "moe_intermediate_size"))  # fmt: skip
# Those of 31B, of E2B and of 26B-A4B: llama.cpp shares the keys of the last two layers that have some.
KINDS: dict[str, tuple[str, dict]] = {
    "dense": (
        "gemma4_experts",
        {"enable_moe_block": False, **NO_EXPERTS, "attention_k_eq_v": True, "num_global_key_value_heads": 1},
    ),
    "small": ("gemma4_small", {"layer_types": [W, W, F, W, W, F]}),
    "experts": ("gemma4_experts", {"attention_k_eq_v": True, "num_global_key_value_heads": 1}),
}


def build(kind: str, **fields: object) -> PreTrainedModel:
    family, own = KINDS[kind]
    model = models.build(family, **deepcopy({**own, **fields}))
    choose = torch.Generator().manual_seed(5)
    for name, buffer in model.named_buffers():
        if name.endswith("layer_scalar"):
            buffer.copy_(0.7 + 0.6 * torch.rand(1, generator=choose))
    return model
