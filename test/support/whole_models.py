# SPDX-License-Identifier: Apache-2.0
"""Tiny random models that take more than text, of odd sizes: `build("gemma3")`."""

import torch
from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedModel

_TEXT = {
    "vocab_size": 333,
    "hidden_size": 96,
    "intermediate_size": 200,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_SIGHT = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
_QWEN_SIGHT = {
    "depth": 1,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_heads": 2,
    "out_hidden_size": 96,
    "num_position_embeddings": 16,
    "deepstack_visual_indexes": [0],
}
_THREE_POSITIONS = {
    "rope_type": "default",
    "rope_theta": 10000.0,
    "mrope_section": [4, 4, 4],
    "mrope_interleaved": True,
}
FIELDS: dict[str, dict] = {
    "gemma3": {
        "text_config": {
            **_TEXT,
            "model_type": "gemma3_text",
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "sliding_window": 16,
            "query_pre_attn_scalar": 24,
        },
        "vision_config": {**_SIGHT, "model_type": "siglip_vision_model"},
        "mm_tokens_per_image": 4,
    },
    "gemma4": {
        "text_config": {
            **_TEXT,
            "model_type": "gemma4_text",
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "sliding_window": 16,
            "global_head_dim": 40,
            "hidden_size_per_layer_input": 18,
            "vocab_size_per_layer_input": 333,
            "num_kv_shared_layers": 2,
        },
        "vision_config": {**_SIGHT, "model_type": "gemma4_vision", "num_key_value_heads": 2, "head_dim": 8},
        "image_token_id": 330,
        "video_token_id": 331,
        "audio_token_id": 332,
    },
    "mistral3": {
        "text_config": {**_TEXT, "model_type": "mistral"},
        "vision_config": {**_SIGHT, "model_type": "pixtral", "head_dim": 8},
    },
    "qwen3_5": {
        "text_config": {
            **_TEXT,
            "model_type": "qwen3_5_text",
            "layer_types": ["linear_attention", "full_attention", "linear_attention"],
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 12,
            "linear_value_head_dim": 10,
        },
        "vision_config": {name: value for name, value in _QWEN_SIGHT.items() if name != "deepstack_visual_indexes"},
    },
    "qwen3_vl": {
        "text_config": {**_TEXT, "model_type": "qwen3_vl_text", "rope_parameters": _THREE_POSITIONS},
        "vision_config": _QWEN_SIGHT,
    },
    "qwen3_vl_moe": {
        "text_config": {
            **_TEXT,
            "model_type": "qwen3_vl_moe_text",
            "head_dim": 32,  # heads that are wider together than a layer, as published
            "rope_parameters": {**_THREE_POSITIONS, "mrope_section": [6, 5, 5]},
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 56,
            "norm_topk_prob": True,  # as published, though the class does nothing else
        },
        "vision_config": _QWEN_SIGHT,
    },
}


def build(family: str, **changes: object) -> PreTrainedModel:
    """In float32, its parameters far from what they begin with; `changes` are of the whole configuration."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**FIELDS[family], **changes})
    model = AutoModelForImageTextToText.from_config(
        config, dtype=torch.float32, attn_implementation="eager", trust_remote_code=False
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def logits(model: PreTrainedModel, ids: torch.Tensor) -> torch.Tensor:
    """Of text alone."""
    extra = {"token_type_ids": torch.zeros_like(ids)} if "Gemma3" in type(model).__name__ else {}
    with torch.no_grad():
        return model(input_ids=ids, **extra).logits
