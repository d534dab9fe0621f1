# SPDX-License-Identifier: Apache-2.0
"""How far devices are apart, and how far they may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mebp.verification.comparison import Errors, Excess, Gradients, Rounding, beyond

_EXACT = 2e-5  # of each gradient and of the loss, in f32
# In bf16 two results that are each as far from float64 as torch's, on SmolLM2 5.5e-2 at the median and 1e-1 at the 95th
# percentile, may be apart by twice that.
_ROUNDING = Rounding(median=0.11, tail=0.2, loss=6e-3)


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
        """What does not agree, the furthest first: in f32 a gradient or loss that is more than 2e-5 off; in bf16 what
        is further off than rounding explains."""
        judged = []
        for device, errors in self.errors.items():
            if self.precision == "f32":
                judged += [Excess(f"{device}, {key}", error, _EXACT) for key, error in errors.gradients.items()]
                judged.append(Excess(f"{device}, the loss", errors.loss, _EXACT))
            else:
                judged += _ROUNDING.judge(errors, f"{device}, ")
        return beyond(judged)

    @property
    def agrees(self) -> bool:
        return not self.beyond
