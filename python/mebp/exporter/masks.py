# SPDX-License-Identifier: Apache-2.0
"""Masks that a class of transformers has in a form of its own, which a graph would hold as a large table. While
`plain_masks` is active they are computed from positions, as other models' are."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from transformers.models.falcon import modeling_falcon
from transformers.models.openai import modeling_openai

from mebp.exporter.attention import visible


@contextmanager
def plain_masks() -> Iterator[None]:
    with (
        patch.object(modeling_falcon, "create_causal_mask", _without_heads),
        patch.object(modeling_openai.Attention, "bias", property(_of_positions), create=True),
    ):
        yield


def _without_heads(inputs_embeds: torch.Tensor, **_: object) -> torch.Tensor:
    """Called as transformers' own: float [sequence, sequence]. To a mask that has an axis of heads Falcon adds its
    biases by position, so that its formula for attention would have them twice."""
    shown = visible(inputs_embeds.shape[1], None, inputs_embeds.device)
    return torch.where(shown, 0.0, torch.finfo(inputs_embeds.dtype).min)


def _of_positions(attention: torch.nn.Module) -> torch.Tensor:
    """The buffer of GPT's attention: float [1, 1, positions, positions], 1 where a query sees a key."""
    table = attention._buffers["bias"]
    return visible(table.shape[-1], None, table.device)[None, None].float()
