# SPDX-License-Identifier: Apache-2.0
"""PrivateLoRA in torch: y = W x + B M A x, of which M alone is trained."""

from collections.abc import Mapping

import numpy as np
import torch

from mebp.private_lora import adapted_layer


class AdaptedLinear(torch.nn.Module):
    """A linear layer with a frozen A [rank_down, in] and B [out, rank_up], and M [rank_up, rank_down]."""

    def __init__(self, base: torch.nn.Module, a: np.ndarray, b: np.ndarray, dtype: torch.dtype) -> None:
        super().__init__()
        self.base = base
        self.register_buffer("a", torch.from_numpy(a).to(dtype))
        self.register_buffer("b", torch.from_numpy(b).to(dtype))
        self.m = torch.nn.Parameter(torch.zeros(b.shape[1], a.shape[0], dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.base(x)
        added = x.to(self.m.dtype) @ self.a.T @ self.m.T @ self.b.T
        return y + added.to(y.dtype)


def add_private_lora(
    model: torch.nn.Module, factors: Mapping[str, tuple[np.ndarray, np.ndarray]], dtype: torch.dtype
) -> dict[str, torch.nn.Parameter]:
    """Adapts the layers of these M with zeros; the parameters by key. `factors`: as mebp.private_lora.factors_of."""
    parameters = {}
    for key, (a, b) in factors.items():
        path, _, name = adapted_layer(key).rpartition(".")
        parent = model.get_submodule(path)
        adapted = AdaptedLinear(getattr(parent, name), a, b, dtype)
        setattr(parent, name, adapted)
        parameters[key] = adapted.m
    return parameters
