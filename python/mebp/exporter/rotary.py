# SPDX-License-Identifier: Apache-2.0
"""Rotary embeddings of GPT-J and CodeGen, which look up sines and cosines in a table of numbers. While
`computed_tables` is active they are computed from positions, as other models do it, so that the graph says which angles
they are of."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from transformers.models.codegen import modeling_codegen
from transformers.models.gptj import modeling_gptj

_BASE = 10000  # what these models' classes have


@contextmanager
def computed_tables() -> Iterator[None]:
    modules = (modeling_gptj, modeling_codegen)
    originals = [module.apply_rotary_pos_emb for module in modules]
    for module, original in zip(modules, originals, strict=True):
        module.apply_rotary_pos_emb = _computing(original)
    try:
        yield
    finally:
        for module, original in zip(modules, originals, strict=True):
            module.apply_rotary_pos_emb = original


def _computing(apply: Callable) -> Callable:
    def rotate(tensor: torch.Tensor, sin: torch.Tensor, cos: torch.Tensor) -> torch.Tensor:
        """tensor [batch, sequence, heads, width]; sin and cos, [batch, sequence, width / 2], tell their size alone."""
        pairs = sin.shape[-1]
        frequencies = 1.0 / (_BASE ** (torch.arange(0, 2 * pairs, 2) / (2 * pairs)))
        angles = (torch.arange(tensor.shape[1]).float()[:, None] * frequencies)[None]
        return apply(tensor, angles.sin(), angles.cos())

    return rotate
