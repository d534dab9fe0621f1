# SPDX-License-Identifier: Apache-2.0
"""The losses of a sampled completion's tokens, each with its derivatives; the names are TRL's loss_type."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mebp.objectives.pair_losses import sigmoid
from mebp.objectives.ratios import clipped

if TYPE_CHECKING:
    from mebp.objectives.groups import GRPOOptions


@dataclass(frozen=True)
class Tokens:
    """A completion's, float64 [tokens] but for the mask, which is bool."""

    logps: np.ndarray
    old: np.ndarray
    advantage: np.ndarray
    mask: np.ndarray
    reference: np.ndarray | None
    sampled: np.ndarray | None
    entropies: np.ndarray | None

    @property
    def log_ratio(self) -> np.ndarray:
        """Of the policy to the old one; 0 where the mask is."""
        return np.where(self.mask, self.logps - self.old, 0.0)

    def mean(self, values: np.ndarray) -> float:
        """Over the tokens that count."""
        return float(values[self.mask].sum()) / max(int(self.mask.sum()), 1)

    def counted(self, values: np.ndarray) -> tuple[float, float]:
        """Their sum over the tokens that count, and how many these are."""
        return float(values[self.mask].sum()), float(self.mask.sum())


# Of tokens, their ratios, and a sampler's correction: each token's loss, its derivative by the ratio and, at a fixed
# ratio, by the log-probability, all [tokens].
Loss = Callable[
    [Tokens, np.ndarray, np.ndarray | None, "GRPOOptions"],
    tuple[np.ndarray, np.ndarray, np.ndarray],
]


def _clipped(tokens, ratio, correction, options):
    loss, slope = clipped(ratio, tokens.advantage, 1 - options.epsilon, options.largest_ratio, options.delta)
    return loss, slope, np.zeros_like(ratio)


def _sapo(tokens, ratio, correction, options):
    temperature = np.where(tokens.advantage > 0, options.sapo_temperature_pos, options.sapo_temperature_neg)
    z = temperature * (ratio - 1)
    slope = -4 * sigmoid(z) * sigmoid(-z) * tokens.advantage
    return -4 / temperature * sigmoid(z) * tokens.advantage, slope, np.zeros_like(ratio)


def _weighted(tokens, factor):
    """-factor A lp, whose factor has no gradient."""
    weight = factor * tokens.advantage
    return -weight * tokens.logps, np.zeros_like(weight), -weight


def _cispo(tokens, ratio, correction, options):
    return _weighted(tokens, np.minimum(ratio, options.largest_ratio))


def _vespo(tokens, ratio, correction, options):
    """The factor is e^lambda w^k e^(-lambda w) with w the sequence's ratio; 1 on policy."""
    least = np.log(1e-8)
    total = np.clip(tokens.log_ratio, -20.0, 20.0).sum()
    if correction is not None:
        with np.errstate(divide="ignore"):  # of a masked token's 0
            total += np.clip(np.log(correction), least, 20.0).sum()
    log_ratio, is_good = np.clip(total, least, 20.0), tokens.advantage >= 0
    k = np.where(is_good, options.vespo_k_pos, options.vespo_k_neg)
    rate = np.maximum(np.where(is_good, options.vespo_lambda_pos, options.vespo_lambda_neg), 1e-4)
    return _weighted(tokens, np.exp(rate + k * log_ratio - rate * np.exp(log_ratio)))


CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")  # which differ in their normalisers
LOSSES: dict[str, Loss] = {**dict.fromkeys(CLIPPED, _clipped), "cispo": _cispo, "sapo": _sapo, "vespo": _vespo}
