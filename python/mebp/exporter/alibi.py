# SPDX-License-Identifier: Apache-2.0
"""Biases by position (ALiBi), which the compiler reads off a graph: where transformers computes others than a model's
config.json says, or than it means."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from transformers import PreTrainedConfig
from transformers.models.falcon import modeling_falcon

from mebp.errors import Error
from mebp.exporter.attention import visible

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


@contextmanager
def biases_added_once() -> Iterator[None]:
    """While it is active, Falcon's mask has no axis of heads. To one that has, its model adds the biases, so that its
    formula for attention has them twice, and its graph a table of all heads and pairs of tokens."""
    with patch.object(modeling_falcon, "create_causal_mask", _mask):
        yield


def _mask(inputs_embeds: torch.Tensor, **_: object) -> torch.Tensor:
    """Called as transformers' own: float [sequence, sequence]."""
    shown = visible(inputs_embeds.shape[1], None, inputs_embeds.device)
    return torch.where(shown, 0.0, torch.finfo(inputs_embeds.dtype).min)
