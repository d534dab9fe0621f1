# SPDX-License-Identifier: Apache-2.0
"""Rewards of completions, by Python functions with TRL's signature, by commands and by other bundles."""

from mebp.rewards.commands import TIMEOUT
from mebp.rewards.processes import StoppedError
from mebp.rewards.scoring import Rewards, Sampled, Scores, load_rewards, runs_code

__all__ = ["TIMEOUT", "Rewards", "Sampled", "Scores", "StoppedError", "load_rewards", "runs_code"]
