# SPDX-License-Identifier: Apache-2.0
"""The attention that a model is exported with: one ONNX node a layer, causal, key and value heads not repeated."""

import torch
from transformers import AttentionInterface

from mebp.errors import Error

NAME = "mebp"


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """query [batch, heads, sequence, width], key and value [batch, kv_heads, sequence, width] ->
    [batch, sequence, heads, width]."""
    if not getattr(module, "is_causal", True):
        raise Error(f"{type(module).__name__} is not causal; only decoder models can be exported")
    if softcap is not None or s_aux is not None:
        raise Error(f"{type(module).__name__} has soft-capped logits or attention sinks; neither can be exported yet")
    window = windowed(sliding_window, query.shape[2])
    mask = _window_mask(query, window) if window else None
    output = torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=mask is None,
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return output.transpose(1, 2), None


def windowed(sliding_window: int | None, sequence: int) -> int | None:
    """The window where it hides anything from a sequence of this length, else None."""
    return sliding_window if sliding_window is not None and sliding_window < sequence else None


def _window_mask(query: torch.Tensor, window: int) -> torch.Tensor:
    """Bool [sequence, sequence]: true where the key's position is in (position - window, position]. Written in
    positions, so that the graph holds a few nodes for it and not the table."""
    positions = torch.arange(query.shape[2], device=query.device)
    distance = positions[:, None] - positions[None, :]
    return (distance >= 0) & (distance < window)


# No mask function is registered under this name, so transformers builds no mask at all.
AttentionInterface.register(NAME, _attention)
