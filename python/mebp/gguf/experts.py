# SPDX-License-Identifier: Apache-2.0
"""Layers of experts: how llama.cpp has their weights and their sizes."""

from collections.abc import Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.gguf import WRITE_ADVICE
from mebp.gguf.architecture import decoder_extents
from mebp.gguf.weights import Weight

# llama.cpp's key and the field of config.json that it is.
EXPERT_FIELDS = {
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
SHARED_FIELDS = {"expert_shared_feed_forward_length": "shared_expert_intermediate_size"}


def routed(module: str, kind: str = "") -> tuple[Weight, ...]:
    """The weights of routed experts in `module` of layers of this kind."""
    return (
        Weight(f"{module}.gate", "ffn_gate_inp", "eh", kind, is_exact=True),
        Weight(
            f"{module}.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", "exh exh", kind, whole=True
        ),
        Weight(f"{module}.experts.down_proj", "ffn_down_exps.weight", "ehx", kind, whole=True),
    )


# Of Qwen, beside the routed ones.
SHARED = (
    Weight("mlp.shared_expert.gate_proj", "ffn_gate_shexp", "sh"),
    Weight("mlp.shared_expert.up_proj", "ffn_up_shexp", "sh"),
    Weight("mlp.shared_expert.down_proj", "ffn_down_shexp", "hs"),
    Weight("mlp.shared_expert_gate", "ffn_gate_inp_shexp", "1h", is_exact=True),
)


# Of Qwen, as llama.cpp's converter writes it on demand.
JOINED = Weight("mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", "eyh", whole=True)


def expert_extents(config: Mapping) -> dict[str, int]:
    """e experts, x between the layers of one and y two of these, s between those of the shared one."""
    return {
        **decoder_extents(config),
        "e": config.get("num_experts") or config["num_local_experts"],
        "x": config["moe_intermediate_size"],
        "y": 2 * config["moe_intermediate_size"],
        "s": config.get("shared_expert_intermediate_size") or 0,
    }


def check_rules(config: Mapping, rules: Mapping[str, object], name: str, file: Path) -> None:
    """Raises mebp.Error, about the config.json `file`, for a field that is not what llama.cpp computes always."""
    for field, value in rules.items():
        if config.get(field, value) != value:
            raise Error(f"{file}: has {field} {config[field]}, which llama.cpp does not compute in '{name}'; "
                        f"{WRITE_ADVICE}")  # fmt: skip
