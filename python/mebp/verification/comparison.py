# SPDX-License-Identifier: Apache-2.0
"""How far gradients are from float64's, and how far they may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

_TOLERANCE = 2e-5  # of a tensor in f32, or twice torch's own error where that is larger
# In bf16, of what rounding explains. The worst of some hundreds is mostly chance: torch's own with two types of adapter
# are three times apart. The 95th percentile is not, so the worst is held to a multiple of that, which torch itself
# reaches.
_MEDIAN, _TAIL, _WORST = 1.1, 1.4, 4.0
# Of the gradients' usual norm. Where the terms of a gradient cancel, as those of a key's bias do, what is left is their
# rounding: one below this is judged by its share.
_SMALL = 1e-2
_LOSS = 0.05  # of the gradients' median: a loss is a mean over tokens, of which each is as far off as a gradient


class Gradients(NamedTuple):
    """Of one loss, {PEFT key: array}."""

    loss: float
    gradients: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Errors:
    """L2 norms of the differences from float64 by float64's own norm, of the loss and of each gradient."""

    loss: float
    gradients: Mapping[str, float]
    norms: Mapping[str, float] = field(default_factory=dict)  # of each gradient, by their root mean square; or 1

    @classmethod
    def of(cls, found: Gradients, exact: Gradients) -> Errors:
        assert found.gradients.keys() == exact.gradients.keys()
        return cls(
            relative_error(found.loss, exact.loss),
            {key: relative_error(values, exact.gradients[key]) for key, values in found.gradients.items()},
            _relative_norms(exact.gradients),
        )

    @property
    def median(self) -> float:
        """Of those that are not zero: while B is, every gradient of A is exact."""
        return float(np.median(self._inexact))

    @property
    def tail(self) -> float:
        """Their 95th percentile."""
        return float(np.quantile(self._inexact, 0.95))

    @property
    def worst(self) -> float:
        """The largest; not a number where one is not."""
        return float(np.max(list(self.gradients.values())))

    @property
    def weighted(self) -> Errors:
        """With those of gradients that are next to nothing beside the others made less, by their norms."""
        weights = {key: min(1.0, self.norms.get(key, 1.0) / _SMALL) for key in self.gradients}
        # Of a gradient that is zero and has an error, infinity would become what is not a number.
        weighted = {key: error if np.isinf(error) else weights[key] * error for key, error in self.gradients.items()}
        return Errors(self.loss, weighted, self.norms)

    @property
    def _inexact(self) -> list[float]:
        return [error for error in self.gradients.values() if error != 0] or [0.0]


@dataclass(frozen=True)
class Excess:
    """What is further from float64 than it may be."""

    name: str
    error: float
    limit: float

    def __str__(self) -> str:
        return f"{self.name}: {self.error:.1e} off, at most {self.limit:.1e}"

    @property
    def order(self) -> tuple[bool, float]:
        """The furthest first, and before it what is not a number."""
        return self.error == self.error, -self.error / self.limit if self.limit > 0 else -np.inf


@dataclass(frozen=True)
class Rounding:
    """How far off rounding to bf16 leaves gradients and a loss: the rule that `mebp verify` and `mebp parity` share."""

    median: float
    tail: float  # the 95th percentile
    loss: float = 0.0

    def judge(self, found: Errors, what: str = "") -> list[Excess]:
        """All that is judged, whether it is too far off or not. A single gradient is what rounding makes of it: the
        median may be a tenth above this, the 95th percentile four tenths, and the worst may be four times this 95th
        percentile. The loss may be as far off as this one, or a twentieth of the median."""
        weighted = found.weighted
        return [
            Excess(f"{what}the gradients' median", weighted.median, _MEDIAN * self.median),
            Excess(f"{what}the gradients' 95th percentile", weighted.tail, _TAIL * self.tail),
            Excess(f"{what}the worst gradient", weighted.worst, _WORST * self.tail),
            Excess(f"{what}the loss", found.loss, max(self.loss, _LOSS * self.median)),
        ]


def beyond(judged: Iterable[Excess]) -> list[Excess]:
    """Those above their limits, the furthest first."""
    # Not `>`, which no comparison with what is not a number is.
    return sorted((one for one in judged if not one.error <= one.limit), key=lambda one: one.order)


@dataclass(frozen=True)
class Comparison:
    """A bundle's errors beside those that torch makes in the same type."""

    bundle: Errors
    torch: Errors
    precision: str  # of the activations: "f32" or "bf16"
    projected: int = 0  # how many of the gradients are compared in their subspaces
    note: str | None = None  # what a person should know of them

    @property
    def beyond(self) -> list[Excess]:
        """What does not agree, the furthest first.

        In f32 each gradient has to agree to 2e-5, or to twice torch's error on it, and the loss to 2e-5. In bf16
        rounding explains what torch is off.
        """
        bundle, torch = self.bundle, self.torch
        if self.precision == "f32":
            limits = {key: max(_TOLERANCE, 2 * error) for key, error in torch.gradients.items()}
            each = [Excess(key, error, limits[key]) for key, error in bundle.gradients.items()]
            each.append(Excess("the loss", bundle.loss, _TOLERANCE))
        else:
            each = Rounding(torch.weighted.median, torch.weighted.tail, torch.loss).judge(bundle)
        return beyond(each)

    @property
    def agrees(self) -> bool:
        return not self.beyond

    def __str__(self) -> str:
        return (
            f"{len(self.bundle.gradients)} gradients: worst {self.bundle.worst:.1e}, 95 % {self.bundle.tail:.1e}, "
            f"median {self.bundle.median:.1e}, loss {self.bundle.loss:.1e} (torch {self.precision}: "
            f"{self.torch.worst:.1e}, {self.torch.tail:.1e}, {self.torch.median:.1e}, {self.torch.loss:.1e})"
        )


def _relative_norms(gradients: Mapping[str, np.ndarray]) -> dict[str, float]:
    norms = {key: float(np.linalg.norm(np.asarray(values, np.float64))) for key, values in gradients.items()}
    usual = float(np.sqrt(np.mean(np.square(list(norms.values()))))) if norms else 0.0
    return {key: norm / usual if usual else 1.0 for key, norm in norms.items()}


def relative_error(values: np.ndarray | float, reference: np.ndarray | float) -> float:
    """The L2 norm of the difference by the reference's L2 norm; infinite where only that is zero."""
    reference = np.asarray(reference, np.float64)
    norm = np.linalg.norm(reference)
    difference = np.linalg.norm(np.asarray(values, np.float64) - reference)
    if norm == 0:
        return 0.0 if difference == 0 else np.inf
    return float(difference / norm)
