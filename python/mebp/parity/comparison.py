# SPDX-License-Identifier: Apache-2.0
"""How far devices are apart, and how far they may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mebp.verification.comparison import Errors, Excess, Gradients

_EXACT = 2e-5  # of each gradient and of the loss, in f32
# In bf16 two results that are each as far from float64 as torch's, on SmolLM2 6e-2 at the median and 1.5e-1 for the
# worst gradient, may be apart by twice that.
_MEDIAN, _WORST, _LOSS = 0.12, 0.3, 6e-3


@dataclass(frozen=True)
class DeviceStep:
    """What one step on a device gave and took."""

    device: str
    loss: float
    seconds: float  # the median of three, after two
    peak_bytes: int  # of the process, above what Python had before
    kernels: str
    gradients: Mapping[str, np.ndarray]  # {PEFT key: array}


@dataclass(frozen=True)
class Parity:
    """The step on each device; the others are compared with the first."""

    precision: str  # of the activations: "f32" or "bf16"
    steps: Sequence[DeviceStep]

    @property
    def errors(self) -> dict[str, Errors]:
        """Of each device but the first, relative to that one."""
        first, *others = self.steps
        truth = Gradients(first.loss, first.gradients)
        return {step.device: Errors.of(Gradients(step.loss, step.gradients), truth) for step in others}

    @property
    def beyond(self) -> list[Excess]:
        """What does not agree, the furthest first: in f32 a gradient or loss that is more than 2e-5 off; in bf16 a
        median, a worst gradient or a loss that is further off than rounding explains."""
        found = []
        for device, errors in self.errors.items():
            if self.precision == "f32":
                found += [Excess(f"{device}, {key}", error, _EXACT) for key, error in errors.gradients.items()]
                found.append(Excess(f"{device}, the loss", errors.loss, _EXACT))
            else:
                found.append(Excess(f"{device}, the gradients' median", errors.median, _MEDIAN))
                found.append(Excess(f"{device}, the worst gradient", errors.worst, _WORST))
                found.append(Excess(f"{device}, the loss", errors.loss, _LOSS))
        # Not `>`, which no comparison with what is not a number is.
        return sorted((one for one in found if not one.error <= one.limit), key=lambda one: one.order)

    @property
    def agrees(self) -> bool:
        return not self.beyond
