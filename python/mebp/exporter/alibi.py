# SPDX-License-Identifier: Apache-2.0
"""Biases by position (ALiBi), which the compiler reads off a graph: where transformers computes others than a model's
config.json says, or than it means."""

from transformers import PreTrainedConfig

from mebp.errors import Error

# What transformers' MPT does, whatever these fields of attn_config say.
_MPT = {"alibi": True, "alibi_bias_max": 8, "qk_ln": False, "prefix_lm": False}


def check_alibi(config: PreTrainedConfig, name: str) -> str | None:
    """What a user should know of the model's biases, if anything; raises Error where it would be another model."""
    if config.model_type == "mpt":
        for field, computed in _MPT.items():
            if (given := getattr(config.attn_config, field)) != computed:
                raise Error(
                    f"{name}: attn_config.{field} is {given}, but transformers computes MPT as with {computed}; "
                    "mebp cannot train this model yet"
                )
    if config.model_type == "falcon" and config.alibi:
        return f"the biases by position of {name} are exact; transformers rounds them to bfloat16 in any precision"
    return None
