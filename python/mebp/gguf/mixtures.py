# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts whose layers all attend: Mixtral, which is a Llama to llama.cpp, and two of Qwen."""

from collections.abc import Mapping
from pathlib import Path

from mebp.gguf.architecture import Architecture, decoder_extents
from mebp.gguf.container import Container
from mebp.gguf.dense import ATTENTION, DECODER, HEAD_NORMS, NORMS, PAIRED, WITH_FACTORS
from mebp.gguf.experts import EXPERT_FIELDS, JOINED, SHARED, SHARED_FIELDS, check_rules, expert_extents, routed
from mebp.gguf.keys import DECODER_FIELDS, Keys
from mebp.gguf.olmo2 import check_head, check_head_of

_OF_EXPERTS = {"feed_forward_length": "every layer has experts"}
_EVERY_LAYER = {"decoder_sparse_step": 1, "mlp_only_layers": []}
_QKV = frozenset({"attn_q", "attn_k", "attn_v"})


def _mixtral_extents(config: Mapping) -> dict[str, int]:
    """e experts, x between the layers of one."""
    return {**decoder_extents(config), "e": config["num_local_experts"], "x": config["intermediate_size"]}


MIXTRAL = Architecture(
    "llama",
    "mixtral",
    "MixtralForCausalLM",
    DECODER,
    (*PAIRED, *routed("mlp"), *NORMS),
    extents=_mixtral_extents,
    keys=Keys(
        fields={**DECODER_FIELDS, "expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"}
    ),
    usual_theta=1e6,
    plain_positions=WITH_FACTORS,
)


def _of_experts(others: Mapping[str, str]) -> dict[str, str]:
    fields = {**DECODER_FIELDS, **EXPERT_FIELDS, **others}
    del fields["feed_forward_length"]
    return fields


def _qwen2_metadata(config: Mapping, file: Path) -> dict[str, object]:
    check_rules(config, {**_EVERY_LAYER, "norm_topk_prob": False}, "qwen2moe", file)
    check_head(config, "qwen2moe", file)
    return {}


def _qwen2_config(container: Container, config: dict) -> dict[str, object]:
    check_head_of(container, config)
    return {"qkv_bias": config["attention_bias"], "norm_topk_prob": False, "use_sliding_window": False}


QWEN2_MOE = Architecture(
    "qwen2moe",
    "qwen2_moe",
    "Qwen2MoeForCausalLM",
    DECODER,
    (*ATTENTION, *routed("mlp"), *SHARED, *NORMS),
    extents=expert_extents,
    biased=lambda config: _QKV if config.get("qkv_bias", True) else frozenset(),
    keys=Keys(fields=_of_experts(SHARED_FIELDS), without_effect=_OF_EXPERTS),
    usual={"use_sliding_window": False, "mlp_only_layers": []},
    own_metadata=_qwen2_metadata,
    own_config=_qwen2_config,
)


def _qwen3_metadata(config: Mapping, file: Path) -> dict[str, object]:
    check_rules(config, {**_EVERY_LAYER, "norm_topk_prob": True, "attention_bias": False}, "qwen3moe", file)
    return {}


def _qwen3_config(container: Container, config: dict) -> dict[str, object]:
    return {"norm_topk_prob": True, "use_sliding_window": False}


QWEN3_MOE = Architecture(
    "qwen3moe",
    "qwen3_moe",
    "Qwen3MoeForCausalLM",
    DECODER,
    (*ATTENTION, *routed("mlp"), *NORMS, *HEAD_NORMS),
    extents=expert_extents,
    keys=Keys(fields=_of_experts({}), without_effect=_OF_EXPERTS),
    usual={"use_sliding_window": False, "mlp_only_layers": [], "norm_topk_prob": False},
    older_fields={"num_local_experts": "num_experts"},
    others=(JOINED,),
    own_metadata=_qwen3_metadata,
    own_config=_qwen3_config,
)
