# SPDX-License-Identifier: Apache-2.0
"""Advantages of a group's completions over one another, from their rewards, as TRL's GRPOTrainer computes them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mebp.errors import Error
from mebp.objectives.checks import check_choice, check_number

_SMALL = 1e-4  # TRL's, added to a deviation that divides


@dataclass(frozen=True)
class AdvantageOptions:
    """TRL's names and defaults; `num_generations` is the size of a group."""

    num_generations: int = 8
    scale_rewards: str | bool = "group"  # by the deviation within the group, "batch", or "none"
    multi_objective_aggregation: str = "sum_then_normalize"
    reward_weights: Sequence[float] | None = None  # of several reward functions; 1 each

    def __post_init__(self) -> None:
        scale = {True: "group", False: "none"}.get(self.scale_rewards, self.scale_rewards)
        object.__setattr__(self, "scale_rewards", scale)
        if self.num_generations < 2:
            raise Error(
                f"num_generations is {self.num_generations}; a group needs at least 2 completions of a prompt, "
                "for an advantage compares them"
            )
        check_choice("scale_rewards", scale, ("group", "batch", "none"))
        check_choice(
            "multi_objective_aggregation",
            self.multi_objective_aggregation,
            ("sum_then_normalize", "normalize_then_sum"),
        )
        for weight in self.reward_weights or ():
            check_number("reward_weights", weight)


@dataclass(frozen=True)
class Advantages:
    """Of all completions of a step, group after group."""

    values: np.ndarray  # float64 [completions]; 0 where no function gave a reward
    rewards: np.ndarray  # float64 [completions], the weighted sums; NaN where no function gave one
    equal_groups: int  # whose rewards are all the same, so that nothing is learned from comparing them

    @property
    def metrics(self) -> dict[str, float]:
        """By TRL's names."""
        return {"reward": _mean(self.rewards), "reward_std": _deviation(self.rewards)}


def advantages(rewards: np.ndarray, options: AdvantageOptions) -> Advantages:
    """rewards: float [completions, functions], the completions of a group side by side; NaN where a function gave none.

    Means and deviations (with Bessel's correction) are over the rewards that there are.
    """
    rewards = np.asarray(rewards, dtype=np.float64)
    count, functions = rewards.shape
    weights = np.ones(functions) if options.reward_weights is None else np.asarray(options.reward_weights, np.float64)
    if len(weights) != functions:
        raise Error(f"reward_weights has {len(weights)} numbers for {functions} rewards; give one each")
    size = options.num_generations
    if count % size:
        raise Error(f"{count} completions are no whole number of groups of {size}; give {size} of each prompt")
    missing = np.isnan(rewards).all(axis=1)
    total = _weighted(rewards, weights, missing)
    if options.multi_objective_aggregation == "normalize_then_sum":
        grouped = rewards.reshape(-1, size, functions)
        centred = grouped - _over(_mean, grouped, axis=1)
        scaled = (centred / (_over(_deviation, grouped, axis=1) + _SMALL)).reshape(count, functions)
        normalized = _weighted(scaled, weights, missing)
        values = (normalized - _mean(normalized)) / (_deviation(normalized) + _SMALL)
    else:
        grouped = total.reshape(-1, size)
        values = grouped - _over(_mean, grouped, axis=1)
        if options.scale_rewards == "group":
            values = values / (_over(_deviation, grouped, axis=1) + _SMALL)
        elif options.scale_rewards == "batch":
            values = values / (_deviation(total) + _SMALL)
        values = values.reshape(count)
    values = np.nan_to_num(values, nan=0.0)
    return Advantages(values, total, sum(map(_all_equal, total.reshape(-1, size))))


def _all_equal(group: np.ndarray) -> bool:
    return len(np.unique(group[~np.isnan(group)])) < 2


def _weighted(rewards: np.ndarray, weights: np.ndarray, missing: np.ndarray) -> np.ndarray:
    return np.where(missing, np.nan, np.nansum(rewards * weights, axis=1))


def _mean(values: np.ndarray) -> float:
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else np.nan


def _deviation(values: np.ndarray) -> float:
    there = values[~np.isnan(values)]
    return float(there.std(ddof=1)) if len(there) > 1 else np.nan


def _over(function, values: np.ndarray, axis: int) -> np.ndarray:
    return np.expand_dims(np.apply_along_axis(function, axis, values), axis)


@dataclass
class EqualGroups:
    """How many groups of an epoch taught nothing, for their rewards were all the same; state of a run."""

    groups: int = 0
    equal: int = 0

    def add(self, step: Advantages, size: int) -> None:
        """A step's advantages, of groups of `size`."""
        self.groups += len(step.values) // size
        self.equal += step.equal_groups

    def end_epoch(self) -> None:
        """Raises mebp.Error where all groups of the epoch taught nothing; counts the next one from 0."""
        if self.groups and self.equal == self.groups:
            raise Error(
                f"all {self.groups:,} groups of the epoch had equal rewards, so nothing was learned; check the reward, "
                "or give a higher temperature"
            )
        self.groups = self.equal = 0
