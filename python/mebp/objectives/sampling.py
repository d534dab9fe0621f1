# SPDX-License-Identifier: Apache-2.0
"""Corrections for a sampler that computes other log-probabilities than training does."""

from dataclasses import dataclass

import numpy as np

from mebp.errors import Error
from mebp.objectives.checks import check_choice, check_number
from mebp.objectives.ratios import bounded_ratio

MODES = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")


@dataclass(frozen=True)
class SamplingCorrection:
    """The ratios p_old / p_sampler as weights of a policy's loss (TRL's vllm_importance_sampling_*).

    mode: of each token or of the whole sequence; beyond the limits a ratio is truncated to them, or becomes 0.
    """

    mode: str = "sequence_mask"
    clip_max: float | None = 3.0
    clip_min: float | None = None

    def __post_init__(self) -> None:
        check_choice("sampling correction", self.mode, MODES)
        for name, limit in (("clip_max", self.clip_max), ("clip_min", self.clip_min)):
            if limit is not None:
                check_number(f"sampling correction's {name}", limit, at_least=0)
        if None not in (self.clip_min, self.clip_max) and self.clip_min >= self.clip_max:
            raise Error(
                f"sampling correction's clip_min is {self.clip_min:g}; give less than clip_max, {self.clip_max:g}"
            )
        if self.mode.endswith("truncate") and self.clip_min is None and self.clip_max is None:
            raise Error(f"sampling correction {self.mode} needs a limit; give clip_max or clip_min")

    @property
    def of_tokens(self) -> bool:
        return self.mode.startswith("token")

    def weights(self, old: np.ndarray, sampled: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """float64 [tokens], 1 where the mask is 0 in a mode of tokens, and where a ratio was beyond e^20.

        old, sampled: [tokens], training's log-probabilities and the sampler's; NaN in `sampled` where it has none.
        """
        difference = np.nan_to_num(np.where(mask, old - sampled, 0.0), nan=0.0)
        if not self.of_tokens:
            difference = np.full_like(difference, difference.sum())
        ratio, beyond = bounded_ratio(difference)
        low = -np.inf if self.clip_min is None else self.clip_min
        high = np.inf if self.clip_max is None else self.clip_max
        if self.mode.endswith("truncate"):
            return np.clip(ratio, low, high), beyond
        return np.where((ratio < low) | (ratio > high), 0.0, ratio), beyond
