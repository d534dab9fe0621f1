# SPDX-License-Identifier: Apache-2.0
"""PPO with a value for each token, as TRL 1.12's PPOTrainer computes it (TRL has none from 1.13 on).

A rollout's targets are made of O(tokens) numbers, all its sequences at once, for whitening couples them. Then each
sequence runs forward and backward on its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mebp.numbers import whole_number
from mebp.objectives.checks import check_choice, check_number
from mebp.objectives.ratios import bounded_ratio, clipped, k3

_SMALL = 1e-8  # TRL's, added to a variance that divides


@dataclass(frozen=True)
class PPOOptions:
    """The options of TRL's PPOConfig that its loss depends on, by its names and with its defaults."""

    kl_coef: float = 0.05
    kl_estimator: str = "k1"  # or "k3"
    whiten_rewards: bool = False
    gamma: float = 1.0
    lam: float = 0.95
    cliprange: float = 0.2
    cliprange_value: float = 0.2
    vf_coef: float = 0.1
    value_model: str = "shared"  # with the policy's adapter; "own": with another, as TRL has another model
    num_ppo_epochs: int = 4
    num_mini_batches: int = 1  # updates of an epoch, each with its share of the rollout's completions
    missing_eos_penalty: float | None = None
    temperature: float = 0.7

    def __post_init__(self) -> None:
        check_choice("kl_estimator", self.kl_estimator, ("k1", "k3"))
        check_choice("value_model", self.value_model, ("shared", "own"))
        for name in ("kl_coef", "cliprange", "cliprange_value", "vf_coef"):
            check_number(name, getattr(self, name), at_least=0)
        for name in ("gamma", "lam"):
            check_number(name, getattr(self, name), at_least=0, at_most=1)
        whole_number("num_ppo_epochs", self.num_ppo_epochs, at_least=1)
        whole_number("num_mini_batches", self.num_mini_batches, at_least=1)
        check_number("temperature", self.temperature, above=0)
        if self.missing_eos_penalty is not None:
            check_number("missing_eos_penalty", self.missing_eos_penalty, above=0)


@dataclass(frozen=True)
class Episode:
    """One sampled completion of n tokens, before any update."""

    logps: np.ndarray  # float [n], the policy's
    reference: np.ndarray  # float [n], the reference's
    # float [n + 1]: the value before each token is written, and the one after the last; [n] where the completion was
    # cut off at the longest that may be written, after which TRL has no position.
    values: np.ndarray
    score: float  # the reward
    ended: bool = True  # whether the completion has an end-of-sequence token


@dataclass(frozen=True)
class Targets:
    """What an episode's updates are made with, float64."""

    advantages: np.ndarray  # [n], whitened over the rollout
    returns: np.ndarray  # [len(values)]
    metrics: dict[str, float]  # of this sequence, by TRL's names; TRL logs their mean


@dataclass(frozen=True)
class PolicyResult:
    """A sequence's share of the policy's loss, and its tokens' coefficients dL/dlogp, float64 [n]."""

    loss: float
    coefficients: np.ndarray
    overflows: int  # tokens whose ratio was beyond e^20
    metrics: dict[str, tuple[float, float]] = field(default_factory=dict)  # each a sum, and by what to divide its sum


@dataclass(frozen=True)
class ValueResult:
    """A sequence's share of the value's loss, vf_coef included, and its coefficients dL/dvalue, float64 [values]."""

    loss: float
    coefficients: np.ndarray
    metrics: dict[str, tuple[float, float]] = field(default_factory=dict)


class PPO:
    """From log-probabilities, values and scores to losses and coefficients."""

    def __init__(self, options: PPOOptions | None = None) -> None:
        self.options = options or PPOOptions()

    def targets(self, episodes: Sequence[Episode]) -> list[Targets]:
        """Advantages and returns of a whole rollout's episodes."""
        divergences = [self._divergence(episode) for episode in episodes]
        rewards = [self._rewards(*each) for each in zip(episodes, divergences, strict=True)]
        if self.options.whiten_rewards:
            rewards = whiten(rewards, shift_mean=False)
        raw = [self._advantages(each, episode.values) for each, episode in zip(rewards, episodes, strict=True)]
        whitened = whiten([each[: len(episode.logps)] for each, episode in zip(raw, episodes, strict=True)])
        return [
            Targets(one, advantage + episode.values, self._metrics(episode, divergence))
            for one, advantage, episode, divergence in zip(whitened, raw, episodes, divergences, strict=True)
        ]

    def policy(self, logps: np.ndarray, old: np.ndarray, advantages: np.ndarray, tokens: float) -> PolicyResult:
        """One sequence's clipped policy loss.

        logps: float [n], the policy's, in nats; old: [n], those before the first update; advantages: [n], from targets.
        tokens: by what the sum is divided: all completions' tokens of the step.
        """
        difference = np.asarray(logps, dtype=np.float64) - old
        ratio, beyond = bounded_ratio(difference)
        low, high = 1 - self.options.cliprange, 1 + self.options.cliprange
        losses, slope = clipped(ratio, advantages, low, high)
        is_clipped = -advantages * np.clip(ratio, low, high) > -advantages * ratio
        count = float(len(ratio))
        metrics = {
            "policy/approxkl_avg": (0.5 * float(difference @ difference), count),
            "policy/clipfrac_avg": (float(is_clipped.sum()), count),
            "val/ratio": (float(ratio.sum()), count),
        }
        return PolicyResult(float(losses.sum()) / tokens, slope * ratio / tokens, int(beyond.sum()), metrics)

    def value(self, values: np.ndarray, old: np.ndarray, returns: np.ndarray, positions: float) -> ValueResult:
        """One sequence's clipped value loss.

        values, old, returns: float [n + 1] or [n], as Episode.values: the values now, then, and the targets' returns.
        positions: by what the sum is divided: all values of the step.
        """
        values = np.asarray(values, dtype=np.float64)
        low, high = old - self.options.cliprange_value, old + self.options.cliprange_value
        cut = np.clip(values, low, high)
        free_error, cut_error = values - returns, cut - returns
        takes_cut = cut_error**2 > free_error**2  # only beyond the limits, where it does not move with the value
        scale = self.options.vf_coef / positions
        loss = 0.5 * scale * float(np.maximum(free_error**2, cut_error**2).sum())
        coefficients = scale * np.where(takes_cut, 0.0, free_error)
        return ValueResult(loss, coefficients, {"val/clipfrac_avg": (float(takes_cut.sum()), float(len(values)))})

    def _divergence(self, episode: Episode) -> np.ndarray:
        """[n], of the policy from the reference."""
        log_ratio = np.asarray(episode.reference, dtype=np.float64) - episode.logps
        return -log_ratio if self.options.kl_estimator == "k1" else k3(log_ratio)[0]

    def _rewards(self, episode: Episode, divergence: np.ndarray) -> np.ndarray:
        rewards = np.zeros(len(episode.values))
        rewards[: len(divergence)] = -self.options.kl_coef * divergence
        rewards[-1] += self._score(episode)
        return rewards

    def _score(self, episode: Episode) -> float:
        return episode.score - (0.0 if episode.ended else self.options.missing_eos_penalty or 0.0)

    def _advantages(self, rewards: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Generalized advantage estimation, over the positions of the values."""
        following = np.append(values[1:], 0.0)
        errors = rewards + self.options.gamma * following - values
        estimates, estimate = np.empty_like(errors), 0.0
        for index in range(len(errors) - 1, -1, -1):
            estimate = errors[index] + self.options.gamma * self.options.lam * estimate
            estimates[index] = estimate
        return estimates

    def _metrics(self, episode: Episode, divergence: np.ndarray) -> dict[str, float]:
        score, penalty = self._score(episode), -self.options.kl_coef * float(divergence.sum())
        return {
            "objective/kl": float(divergence.sum()),
            "objective/entropy": -float(np.sum(episode.logps)),
            "objective/non_score_reward": penalty,
            "objective/rlhf_reward": penalty + score,
            "objective/scores": score,
        }


def whiten(values: Sequence[np.ndarray], shift_mean: bool = True) -> list[np.ndarray]:
    """All numbers of all sequences to variance 1 (with Bessel's correction), and to mean 0 with `shift_mean`."""
    together = np.concatenate(values)
    mean = together.mean()
    scale = 1 / np.sqrt((together.var(ddof=1) if len(together) > 1 else 0.0) + _SMALL)
    kept = 0.0 if shift_mean else mean
    return [(each - mean) * scale + kept for each in values]
