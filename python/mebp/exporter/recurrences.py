# SPDX-License-Identifier: Apache-2.0
"""What a row knows of those before it by a state: transformers' functions for it, each as one node of our own.

Written out, a recurrence is a graph of cumulative sums and of loops that torch unrolls. Each modeling module has the
functions under the same names, so one replacement serves all families. While `one_node_each` is active, a call of one
is one node of the domain "mebp" (compiler/import/OnnxFile.cpp), whose operands are [batch, sequence, features].
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import onnx_ir as ir
import torch
from torch.onnx.ops import symbolic
from transformers import PreTrainedModel
from transformers.activations import ACT2FN

from mebp.errors import Error

_DOMAIN, _VERSION = "mebp", 1
_CONVOLUTION, _DELTA = "CausalConv", "GatedDelta"


@contextmanager
def one_node_each(model: PreTrainedModel) -> Iterator[None]:
    """Of all that `model` calls."""
    with ExitStack() as replaced:
        for module in {sys.modules[type(each).__module__] for each in model.modules()}:
            for name, function in _REPLACED.items():
                if hasattr(module, name):
                    replaced.enter_context(patch.object(module, name, function))
            if hasattr(module, "torch_chunk_gated_delta_rule"):
                replaced.enter_context(patch.object(torch.nn.functional, "softplus", _softplus))
        yield


def check_recurrences(model: PreTrainedModel, graph: ir.Model) -> None:
    """Raises Error where a layer carries a state by other functions than those that are one node each, as that of a
    family which is newer than this table."""
    nodes = Counter(node.op_type for node in graph.graph if node.domain == _DOMAIN)
    for op, is_one in ((_CONVOLUTION, _is_convolution), (_DELTA, _has_rates)):
        modules = [name for name, module in model.named_modules() if is_one(module)]
        if nodes[op] < len(modules):
            raise Error(
                f"{type(model).__name__}: '{modules[0]}' carries a state from token to token in a way of its own; mebp "
                "cannot train this model yet"
            )


def _is_convolution(module: torch.nn.Module) -> bool:
    """Of each channel by itself, along the sequence."""
    return isinstance(module, torch.nn.Conv1d) and module.groups == module.in_channels > 1


def _has_rates(module: torch.nn.Module) -> bool:
    """Of decay: all families call them so."""
    return "A_log" in dict(module.named_parameters(recurse=False))


def _causal_conv(
    hidden_states: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    seq_idx: torch.Tensor | None = None,
    initial_states: torch.Tensor | None = None,
    **_: object,
) -> torch.Tensor:
    """hidden_states [batch, channels, sequence], weight [channels, width] -> as hidden_states."""
    if seq_idx is not None or initial_states is not None:
        raise Error("a convolution of packed samples, or with a state before them, cannot be exported")
    rows = hidden_states.transpose(1, 2)
    operands = [rows, weight, *([] if bias is None else [bias])]
    made = symbolic(f"{_DOMAIN}::{_CONVOLUTION}", operands, {}, dtype=rows.dtype, shape=rows.shape, version=_VERSION)
    if activation is not None:
        made = ACT2FN[activation](made)
    return made.transpose(1, 2)


def _gated_delta(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: torch.Tensor | None = None,
    initial_state: torch.Tensor | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """query, key [batch, sequence, heads, K], value [.., P], g, beta [batch, sequence, heads] -> as value."""
    if cu_seqlens is not None or initial_state is not None:
        raise Error("a recurrence over packed samples, or with a state before them, cannot be exported")
    width = query.shape[-1]
    scale = width**-0.5
    if use_qk_l2norm_in_kernel:
        # x / sqrt(sum of squares + epsilon). Of queries the factor is one with the scale of what they read.
        query, key = (each * torch.rsqrt(each.pow(2).mean(-1, True) + _EPSILON / width) for each in (query, key))
        key, scale = key * scale, scale * scale
    operands = [query, key, value, g, beta]
    made = symbolic(
        "mebp::GatedDelta", operands, {"scale": scale}, dtype=value.dtype, shape=value.shape, version=_VERSION
    )
    return made, None


def _softplus(x: torch.Tensor, beta: float = 1, threshold: float = 20) -> torch.Tensor:
    """As ONNX has it. torch writes down where it is linear, too, which is where float32 cannot tell."""
    if beta != 1 or threshold < 20:
        raise Error(f"softplus with beta {beta} and threshold {threshold} cannot be exported; mebp has 1 and 20")
    return symbolic("::Softplus", [x], {}, dtype=x.dtype, shape=x.shape)


_EPSILON = 1e-6
_REPLACED = {"causal_conv1d_fn": _causal_conv, "torch_chunk_gated_delta_rule": _gated_delta}
