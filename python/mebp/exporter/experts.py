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
    if not module.has_gate:
        raise Error(f"{type(module).__name__}: its experts are stored in a form that mebp cannot train yet")
    gate_up = _multiply(module, "gate_up_proj", hidden_states[:, None], top_k_index)
    output = _multiply(module, "down_proj", module._apply_gate(gate_up), top_k_index)
    return (output * top_k_weights[..., None].to(output.dtype)).sum(dim=1)


def _multiply(module: torch.nn.Module, name: str, inputs: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
    """By the module's weights of that name [experts, out, in], or [experts, in, out]: inputs [tokens, slots or 1, in],
    experts [tokens, slots] -> [tokens, slots, out]."""
    weights = getattr(module, name)
    chosen = _choose(weights.transpose(1, 2) if module.is_transposed else weights, experts)
    product = (chosen @ inputs[..., None]).squeeze(-1)
    return product + _choose(getattr(module, f"{name}_bias"), experts) if module.has_bias else product


def _choose(values: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
    """values [experts, ...], experts [tokens, slots] -> [tokens, slots, ...]."""
    return values.index_select(0, experts.flatten()).unflatten(0, experts.shape)


ALL_EXPERTS_FUNCTIONS.register(NAME, _experts)
