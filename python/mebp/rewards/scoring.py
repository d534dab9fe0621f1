# SPDX-License-Identifier: Apache-2.0
"""Several rewards of the same completions."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mebp.errors import Error
from mebp.rewards.bundles import load_bundle
from mebp.rewards.commands import TIMEOUT, CommandReward
from mebp.rewards.functions import FunctionReward, load_function
from mebp.rewards.sampled import Progress, Reward, Sampled, checked

_BUNDLE = re.compile(r".*\.mebp(:.+)?")
_FUNCTION = re.compile(r"(?P<module>[^\s:]+):(?P<function>[A-Za-z_]\w*)")


@dataclass(frozen=True)
class Scores:
    """Of all completions of a step."""

    rewards: np.ndarray  # float64 [completions, rewards]; NaN where one gave None
    metrics: dict[str, float]  # by TRL's names, and what the rewards logged themselves

    @property
    def unscored(self) -> int:
        """Completions for which every reward gave None."""
        return int(np.isnan(self.rewards).all(axis=1).sum())


class Rewards:
    """One or more rewards; how they are weighed is AdvantageOptions' to say."""

    def __init__(self, rewards: Sequence[Reward]) -> None:
        if not rewards:
            raise Error("completions need a reward; give --reward MODULE:FUNCTION, or a command")
        self._rewards = rewards
        names = [each.name for each in rewards]
        # Two of one name, from different modules, are told apart by their number.
        self.names = [
            name if names.count(name) == 1 else f"{name}_{names[: index + 1].count(name)}"
            for index, name in enumerate(names)
        ]

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raises mebp.Error where a reward needs a column that the data does not have: before anything is computed."""
        for each in self._rewards:
            if isinstance(each, FunctionReward):
                each.check_columns(columns)

    def score(self, batch: Sequence[Sampled], progress: Progress | None = None) -> Scores:
        """All completions of a step, one prompt's side by side.

        Raises mebp.Error, with the reward's name and the completion's line, for what is no reward.
        """
        columns, metrics = [], {}
        for name, reward in zip(self.names, self._rewards, strict=True):
            given = reward(batch, progress or Progress())
            numbers = np.array(checked(name, given.rewards, batch))
            metrics |= {logged: float(np.mean(values)) for logged, values in given.metrics.items()}
            columns.append(numbers)
        rewards = np.stack(columns, axis=1)
        return Scores(rewards, self.metrics_of(rewards) | metrics)

    def metrics_of(self, rewards: np.ndarray) -> dict[str, float]:
        """By TRL's names, of float64 [completions, rewards]: the mean and deviation of those that are there."""
        metrics = {}
        for name, numbers in zip(self.names, rewards.T, strict=True):
            there = numbers[~np.isnan(numbers)]
            metrics[f"rewards/{name}/mean"] = float(there.mean()) if len(there) else np.nan
            metrics[f"rewards/{name}/std"] = float(there.std(ddof=1)) if len(there) > 1 else np.nan
        return metrics


def load_rewards(written: Sequence[str], timeout: float = TIMEOUT, stop: Callable[[], bool] = lambda: False) -> Rewards:
    """Each a NAME.mebp or NAME.mebp:ADAPTER, a MODULE:FUNCTION, where MODULE may be a file that ends in .py, or else a
    command.

    timeout: seconds that a command may take for a call, 0 for no limit. stop: when it becomes true, a command is ended
    and `score` raises StoppedError. Raises mebp.Error where one cannot be loaded or run.
    """
    return Rewards([_load(each, timeout, stop) for each in written])


def runs_code(written: str) -> bool:
    """Whether loading or calling this reward runs code that is not mebp's."""
    return not _BUNDLE.fullmatch(written)


def _load(written: str, timeout: float, stop: Callable[[], bool]) -> Reward:
    if not runs_code(written):
        return load_bundle(written)
    if match := _FUNCTION.fullmatch(written):
        return load_function(match["module"], match["function"])
    return CommandReward(written, timeout, stop)
