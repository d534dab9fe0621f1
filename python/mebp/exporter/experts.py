# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts as a model is exported with them: every slot of a token is multiplied with the weights of its own
expert, which the compiler makes one kernel of."""

import torch
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

from mebp.errors import Error

NAME = "mebp"


def are_replaced(module: torch.nn.Module) -> bool:
    """Whether a module's forward asks which function computes its experts, and so comes to this one."""
    return hasattr(module, "is_concatenated")


def _experts(
    module: torch.nn.Module, hidden_states: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
) -> torch.Tensor:
    """Called as transformers' own: hidden_states [tokens, hidden], top_k_index and top_k_weights [tokens, slots] ->
    [tokens, hidden]."""
    kind = type(module).__name__
    if module.is_transposed or module.has_bias or not module.is_concatenated or not module.has_gate:
        raise Error(f"{kind}: its experts are stored in a form that mebp cannot train yet")
    gate_up = _multiply(module.gate_up_proj, hidden_states[:, None], top_k_index)
    output = _multiply(module.down_proj, module._apply_gate(gate_up), top_k_index)
    return (output * top_k_weights[..., None].to(output.dtype)).sum(dim=1)


def _multiply(weights: torch.Tensor, inputs: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
    """weights [experts, out, in], inputs [tokens, slots or 1, in], experts [tokens, slots] -> [tokens, slots, out]."""
    chosen = weights.index_select(0, experts.flatten()).unflatten(0, experts.shape)
    return (chosen @ inputs[..., None]).squeeze(-1)


ALL_EXPERTS_FUNCTIONS.register(NAME, _experts)
