# SPDX-License-Identifier: Apache-2.0
"""What GRPO does with the entropy of its tokens' distributions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mebp.objectives.checks import check_number


def entropy_threshold(entropies: Sequence[np.ndarray], quantile: float) -> float:
    """Above which lie the top `quantile` of all tokens' entropies (TRL's top_entropy_quantile).

    entropies: a float array for each sequence, of its masked-in tokens alone, in nats.
    """
    together = np.concatenate([np.asarray(each, dtype=np.float64) for each in entropies])
    return float(np.quantile(together, 1 - quantile)) if len(together) else np.inf


@dataclass
class EntropyController:
    """Adapts the coefficient of the entropy bonus, step by step (Skywork-OR1; TRL's use_adaptive_entropy).

    `coefficient` and `last_entropy` are all its state.
    """

    coefficient: float
    entropy_coef_min: float = 0.0
    entropy_coef_max: float = 1.0
    entropy_coef_delta: float = 0.005
    entropy_target: float = 0.2
    last_entropy: float = np.inf  # of the step before; none yet, so no bonus

    def __post_init__(self) -> None:
        check_number("entropy_coef_min", self.entropy_coef_min, at_least=0)
        check_number("entropy_coef_max", self.entropy_coef_max, at_least=self.entropy_coef_min)
        check_number("entropy_coef_delta", self.entropy_coef_delta, at_least=0)
        check_number("entropy_target", self.entropy_target, at_least=0)

    @property
    def applied(self) -> float:
        """The coefficient of the step that begins."""
        return self.coefficient if self.last_entropy <= self.entropy_target else 0.0

    def update(self, entropy: float) -> None:
        """Ends a step whose tokens had this mean entropy, in nats."""
        if entropy <= self.entropy_target:
            self.coefficient = min(self.coefficient + self.entropy_coef_delta, self.entropy_coef_max)
        else:
            self.coefficient = max(self.coefficient - self.entropy_coef_delta, self.entropy_coef_min)
        self.last_entropy = entropy
