# SPDX-License-Identifier: Apache-2.0
"""Rotary embeddings whose code does not say in a graph which angles they are of: GPT-J and CodeGen look up sines and
cosines in a table of numbers, DeepSeek-V2 multiplies complex numbers, which ONNX has not, Phi-3.5-MoE asks the last
position how large its cosines are, and models that see assign parts of their angles to three positions. While
`computed_tables` is active they are computed from positions, as other models do it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from unittest.mock import patch

import torch
from transformers import PreTrainedModel
from transformers.models.codegen import modeling_codegen
from transformers.models.deepseek_v2 import modeling_deepseek_v2
from transformers.models.gptj import modeling_gptj
from transformers.models.phimoe import modeling_phimoe

from mebp.errors import Error

_BASE = 10000  # what GPT-J's and CodeGen's classes have


@contextmanager
def computed_tables(model: PreTrainedModel) -> Iterator[None]:
    """Of all that `model` calls."""
    with ExitStack() as replaced:
        for kind in {type(each) for each in model.modules() if hasattr(each, "recomposition_frequencies")}:
            replaced.enter_context(patch.object(kind, "recomposition_frequencies", _of_text))
        for module in (modeling_gptj, modeling_codegen):
            rotate = _computing(module.apply_rotary_pos_emb)
            replaced.enter_context(patch.object(module, "apply_rotary_pos_emb", rotate))
        replaced.enter_context(patch.object(modeling_deepseek_v2.DeepseekV2RotaryEmbedding, "forward", _real_tables))
        replaced.enter_context(patch.object(modeling_deepseek_v2, "apply_rotary_emb", _rotate_pairs))
        replaced.enter_context(patch.object(modeling_phimoe.PhimoeRotaryEmbedding, "forward", _short_tables))
        yield


def _of_text(_: torch.nn.Module, frequencies: torch.Tensor) -> torch.Tensor:
    """Of three positions [3, batch, sequence, pairs], which are one and the same for text."""
    return torch.cat((frequencies[0], frequencies[0]), dim=-1)


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


def _short_tables(
    rotary: torch.nn.Module, x: torch.Tensor, position_ids: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Those of sequences up to original_max_position_embeddings: no export of longrope goes beyond (lengths.py). The
    module says "default" while it is exported, its configuration what the model has."""
    parameters = rotary.config.rope_parameters
    if parameters["rope_type"] not in ("default", "longrope"):
        kind = f"{type(rotary).__name__}: its rope_type is '{parameters['rope_type']}'"
        raise Error(f"{kind}, whose scale depends on the length; mebp trains 'default' and 'longrope' of it")
    scale = rotary.attention_scaling if parameters["rope_type"] == "default" else parameters["short_mscale"]
    angles = position_ids[..., None].float() * rotary.inv_freq
    angles = torch.cat((angles, angles), dim=-1)
    return (angles.cos() * scale).to(x.dtype), (angles.sin() * scale).to(x.dtype)
