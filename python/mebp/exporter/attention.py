# SPDX-License-Identifier: Apache-2.0
"""The attention that a model is exported with: one ONNX node a layer, key and value heads not repeated."""

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig

from mebp.errors import Error

NAME = "mebp"
ENCODER = "mebp-encoder"  # which has no mask function: padding is hidden by where samples end


def _mask(
    q_length: int,
    attention_mask: torch.Tensor | None = None,
    local_size: int | None = None,
    use_vmap: bool = False,
    config: PreTrainedConfig | None = None,
    device: torch.device | str = "cpu",
    **options: object,
) -> torch.Tensor:
    """Called as transformers' own mask functions: bool [1 or batch, 1, q_length, q_length], true where a query sees a
    key. `window` of it says all that it does, where it is causal and no padding is hidden."""
    if "allow_is_bidirectional_skip" in options:
        # Decoders make one for the states of an encoder, and have none.
        everything = torch.ones(1, 1, q_length, q_length, dtype=torch.bool, device=device)
        everything.is_causal = False
        return everything
    if use_vmap or (local_size is not None and getattr(config, "attention_chunk_size", None)):
        raise Error(f"{config.model_type}: its mask is neither causal nor a window; it cannot be exported yet")
    window = windowed(local_size, q_length)
    mask = visible(q_length, window, device)[None, None]
    if attention_mask is not None:
        return mask & attention_mask[:, None, None, :].bool()
    mask.window = window
    return mask


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
    indices: torch.Tensor | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """query [batch, heads, sequence, width], key [batch, kv_heads, sequence, width], value [batch, kv_heads, sequence,
    own width] -> [batch, sequence, heads, own width]."""
    kind, sequence = type(module).__name__, query.shape[2]
    if not getattr(module, "is_causal", True) or not getattr(attention_mask, "is_causal", True):
        raise Error(f"{kind} is not causal, so it predicts no next token; encoders are exported with another --task")
    if s_aux is not None and s_aux.shape != query.shape[1:2]:
        raise Error(f"{kind} has attention sinks that are not one number a head; mebp cannot train these yet")
    if indices is not None:
        raise Error(f"{kind} lets queries see chosen keys alone; mebp cannot train sparse attention yet")
    window = windowed(sliding_window, sequence)
    if hasattr(attention_mask, "window"):
        # Attention may leave a window to the mask, as transformers' own formula does.
        if window is not None and window != attention_mask.window:
            shown = attention_mask.window or "none"
            raise Error(f"{kind}: a window of {window} in its attention, of {shown} in its mask; it cannot be exported")
        window, attention_mask = attention_mask.window, None
    if attention_mask is None and (window is not None or softcap or s_aux is not None):
        attention_mask = visible(sequence, window, query.device)
    if softcap or s_aux is not None:
        output = _by_formula(query, key, value, attention_mask, scaling, softcap, s_aux)
        return output.transpose(1, 2).contiguous(), None
    output = torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        is_causal=attention_mask is None,
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return output.transpose(1, 2).contiguous(), None


def _attention_of_encoder(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Likewise, where each token sees all others, or those that are less than the window away."""
    kind, sequence = type(module).__name__, query.shape[2]
    if getattr(module, "is_causal", False) or attention_mask is not None:
        raise Error(f"{kind} does not see all tokens; only encoders can be trained for this --task")
    if softcap or s_aux is not None:
        raise Error(f"{kind} has a cap or sinks in an encoder's attention; mebp cannot train these yet")
    window = windowed(sliding_window, sequence)
    if window is not None:
        positions = torch.arange(sequence, device=query.device)
        attention_mask = (positions[:, None] - positions[None, :]).abs() < window
    output = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=query.shape[1] != key.shape[1]
    )
    return output.transpose(1, 2).contiguous(), None


def _by_formula(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    scaling: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """What torch has no function for. The mask hides what the cap would bring back; sinks [heads] are one score more
    for each query, which has no value."""
    shared = query.shape[1] // key.shape[1]
    key, value = (each[:, :, None].expand(-1, -1, shared, -1, -1).flatten(1, 2) for each in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    if sinks is None:
        return torch.softmax(scores, dim=-1) @ value
    column = sinks.reshape(1, -1, 1, 1).expand(len(scores), -1, scores.shape[2], 1)
    return torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)[..., :-1] @ value


def windowed(sliding_window: int | None, sequence: int) -> int | None:
    """The window where it hides anything from a sequence of this length, else None."""
    return sliding_window if sliding_window is not None and sliding_window < sequence else None


def visible(sequence: int, window: int | None, device: torch.device | str) -> torch.Tensor:
    """Bool [sequence, sequence]: true where the key's position is in (position - window, position]. Written in
    positions, so that the graph holds a few nodes for it and not the table."""
    positions = torch.arange(sequence, device=device)
    distance = positions[:, None] - positions[None, :]
    return distance >= 0 if window is None else (distance >= 0) & (distance < window)


AttentionInterface.register(NAME, _attention)
AttentionInterface.register(ENCODER, _attention_of_encoder)
AttentionMaskInterface.register(NAME, _mask)
