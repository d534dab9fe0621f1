# SPDX-License-Identifier: Apache-2.0
"""Rotary embeddings whose code does not say in a graph which angles they are of: GPT-J and CodeGen look up sines and
cosines in a table of numbers, DeepSeek-V2 multiplies complex numbers, which ONNX has not. While `computed_tables` is
active they are computed from positions, as other models do it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from unittest.mock import patch

import torch
from transformers.models.codegen import modeling_codegen
from transformers.models.deepseek_v2 import modeling_deepseek_v2
from transformers.models.gptj import modeling_gptj

_BASE = 10000  # what GPT-J's and CodeGen's classes have


@contextmanager
def computed_tables() -> Iterator[None]:
    with ExitStack() as replaced:
        for module in (modeling_gptj, modeling_codegen):
            rotate = _computing(module.apply_rotary_pos_emb)
            replaced.enter_context(patch.object(module, "apply_rotary_pos_emb", rotate))
        replaced.enter_context(patch.object(modeling_deepseek_v2.DeepseekV2RotaryEmbedding, "forward", _real_tables))
        replaced.enter_context(patch.object(modeling_deepseek_v2, "apply_rotary_emb", _rotate_pairs))
        yield


def _computing(apply: Callable) -> Callable:
    def rotate(tensor: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor) -> torch.Tensor:
        """tensor [batch, sequence, heads, width]; sin and cos, [batch, sequence, width / 2], tell their size alone."""
        pairs = sin.shape[-1]
        frequencies = 1.0 / (_BASE ** (torch.arange(0, 2 * pairs, 2) / (2 * pairs)))
        angles = (torch.arange(tensor.shape[1]).float()[:, None] * frequencies)[None]
        return apply(tensor, angles.sin(), angles.cos())

    return rotate


class _Tables(NamedTuple):
    """Cosines and sines [batch, sequence, width], those of a pair of neighbours beside each other."""

    cos: torch.Tensor
    sin: torch.Tensor

    def to(self, _: torch.device) -> "_Tables":
        return self


def _real_tables(rotary: torch.nn.Module, _: torch.Tensor, position_ids: torch.Tensor) -> _Tables:
    angles = torch.repeat_interleave(position_ids[..., None].float() * rotary.inv_freq, 2, dim=-1)
    return _Tables(angles.cos() * rotary.attention_scaling, angles.sin() * rotary.attention_scaling)


def _rotate_pairs(xq: torch.Tensor, xk: torch.Tensor, tables: _Tables) -> tuple[torch.Tensor, torch.Tensor]:
    """xq and xk [batch, heads, sequence, width]: the pair a + bi times the one of the tables."""

    def rotate(x: torch.Tensor) -> torch.Tensor:
        turned = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
        return x * tables.cos[:, None] + turned * tables.sin[:, None]

    return rotate(xq), rotate(xk)
