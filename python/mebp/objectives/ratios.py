# SPDX-License-Identifier: Apache-2.0
"""Ratios of probabilities, and the clipped objective that GRPO and PPO make of them."""

import numpy as np

LARGEST_LOG_RATIO = 20.0  # e^20 is 5e8: a policy that far away means wrong log-probabilities, and would swamp the rest


def bounded_ratio(log_ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """e^log_ratio, at most e^20, and where it would be more."""
    return np.exp(np.minimum(log_ratio, LARGEST_LOG_RATIO)), log_ratio > LARGEST_LOG_RATIO


def clipped(
    ratio: np.ndarray, advantage: np.ndarray, low: float, high: float, cap: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """-min(min(r, cap) A, clip(r, low, high) A), and its derivative by r.

    Where both are equal the derivative is the mean of theirs, as torch has it.
    """
    capped = ratio if cap is None else np.minimum(ratio, cap)
    whole, cut = capped * advantage, np.clip(ratio, low, high) * advantage
    whole_slope = np.ones_like(ratio) if cap is None else (ratio <= cap).astype(np.float64)
    cut_slope = ((low <= ratio) & (ratio <= high)).astype(np.float64)
    of_whole = np.where(whole < cut, 1.0, np.where(whole == cut, 0.5, 0.0))
    return -np.minimum(whole, cut), -advantage * (of_whole * whole_slope + (1 - of_whole) * cut_slope)


def k3(log_ratio: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Schulman's estimate of the divergence from log(p_ref / p), its derivative by log p, and where it is bounded."""
    ratio, beyond = bounded_ratio(log_ratio)
    return ratio - log_ratio - 1, 1 - ratio, beyond
