# SPDX-License-Identifier: Apache-2.0
"""Adapters between a frozen A and B in torch: y = W x + B v, where v is of A x and of what is trained."""

from collections.abc import Callable, Mapping

import numpy as np
import torch

from mebp.remote_adapters import adapted_layer, kind_of


class AdaptedLinear(torch.nn.Module):
    """A linear layer with a frozen A [rank_down, in] and B [out, rank_up], and zeros where `trained` is."""

    def __init__(
        self,
        base: torch.nn.Module,
        a: np.ndarray,
        b: np.ndarray,
        trained: np.ndarray,
        middle: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.base = base
        self.middle = middle
        self.register_buffer("a", torch.from_numpy(a).to(dtype))
        self.register_buffer("b", torch.from_numpy(b).to(dtype))
        self.trained = torch.nn.Parameter(torch.zeros(trained.shape, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.base(x)
        added = self.middle(x.to(self.trained.dtype) @ self.a.T, self.trained) @ self.b.T
        return y + added.to(y.dtype)


def add_remote_adapters(
    model: torch.nn.Module,
    factors: Mapping[str, tuple[np.ndarray, np.ndarray]],
    trainables: Mapping[str, np.ndarray],
    dtype: torch.dtype,
) -> dict[str, torch.nn.Parameter]:
    """Adapts the layers that these are trained on, which begin with zeros; the parameters by key. `factors`: as
    mebp.remote_adapters.factors_of."""
    parameters = {}
    for key, (a, b) in factors.items():
        path, _, name = adapted_layer(key).rpartition(".")
        parent = model.get_submodule(path)
        adapted = AdaptedLinear(getattr(parent, name), a, b, trainables[key], kind_of(key).middle.apply, dtype)
        setattr(parent, name, adapted)
        parameters[key] = adapted.trained
    return parameters
