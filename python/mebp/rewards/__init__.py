# SPDX-License-Identifier: Apache-2.0
"""Rewards of completions, by Python functions with TRL's signature, by commands and by other bundles."""

from mebp.rewards.scoring import Rewards, Sampled, Scores, load_rewards

__all__ = ["Rewards", "Sampled", "Scores", "load_rewards"]
