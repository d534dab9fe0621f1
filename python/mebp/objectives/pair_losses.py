# SPDX-License-Identifier: Apache-2.0
"""The losses of preference pairs, each with its derivatives; the names are TRL's loss_type.

x stands for a log-ratio: the sum over a completion of log p - log p_ref. All functions take arrays [pairs].
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mebp.objectives.pairs import DPOOptions


def log_sigmoid(z: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0.0, -z)


def sigmoid(z: np.ndarray) -> np.ndarray:
    return np.exp(log_sigmoid(z))


def reward_metrics(won: float, lost: float, chosen: float, rejected: float) -> dict[str, float]:
    """A pair's, by TRL's names: the rewards of its completions, and their log-probabilities as the loss takes them."""
    return {
        "rewards/chosen": won,
        "rewards/rejected": lost,
        "rewards/accuracies": float(won > lost),
        "rewards/margins": won - lost,
        "logps/chosen": chosen,
        "logps/rejected": rejected,
    }


# Of a difference: (loss, its derivative by that difference).
Difference = Callable[[np.ndarray, "DPOOptions"], tuple[np.ndarray, np.ndarray]]


def _sigmoid(difference, options):
    z = options.beta * difference
    return -log_sigmoid(z), -options.beta * sigmoid(-z)


def _hinge(difference, options):
    z = options.beta * difference
    return np.maximum(1 - z, 0.0), np.where(z < 1, -options.beta, 0.0)


def _ipo(difference, options):
    error = difference - 1 / (2 * options.beta)
    return error**2, 2 * error


def _exo_pair(difference, options):
    z = options.beta * difference
    log_won, log_lost = log_sigmoid(z), log_sigmoid(-z)
    won, lost = np.exp(log_won), np.exp(log_lost)
    over_won = log_won - np.log1p(-options.label_smoothing)
    over_lost = log_lost - np.log(options.label_smoothing)
    return won * over_won + lost * over_lost, options.beta * won * lost * (over_won - over_lost)


def _robust(difference, options):
    z, flipped = options.beta * difference, options.label_smoothing
    scale = 1 - 2 * flipped
    loss = -(1 - flipped) * log_sigmoid(z) + flipped * log_sigmoid(-z)
    return loss / scale, options.beta * (-(1 - flipped) * sigmoid(-z) - flipped * sigmoid(z)) / scale


def _smoothed(difference, options):
    """Of AOT: each of its sorted differences."""
    z, flipped = options.beta * difference, options.label_smoothing
    loss = -(1 - flipped) * log_sigmoid(z) - flipped * log_sigmoid(-z)
    return loss, options.beta * (-(1 - flipped) * sigmoid(-z) + flipped * sigmoid(z))


def _discopop(difference, options):
    z, tau = options.beta * difference, options.discopop_tau
    # exp(-z) alone would overflow where the modulation makes it vanish.
    modulation, rest = sigmoid(z / tau), sigmoid(-z / tau)
    exponential = np.exp(-z + log_sigmoid(z / tau))
    slope = np.exp(-z + log_sigmoid(z / tau) + log_sigmoid(-z / tau)) + modulation * rest * log_sigmoid(z)
    loss = -log_sigmoid(z) * rest + exponential
    return loss, options.beta * (-sigmoid(-z) * rest - exponential + slope / tau)


# Of both log-ratios: (loss, its derivative by the chosen one's, by the rejected one's).
Ratios = Callable[[np.ndarray, np.ndarray, "DPOOptions"], tuple[np.ndarray, np.ndarray, np.ndarray]]


def _nca_pair(chosen, rejected, options):
    beta = options.beta
    won, lost = beta * chosen, beta * rejected
    loss = -log_sigmoid(won) - 0.5 * log_sigmoid(-won) - 0.5 * log_sigmoid(-lost)
    return loss, beta * (-sigmoid(-won) + 0.5 * sigmoid(won)), beta * 0.5 * sigmoid(lost)


def _bco_pair(chosen, rejected, options):
    won, lost = options.beta * chosen, options.beta * rejected
    loss = -log_sigmoid(won) - log_sigmoid(-lost)
    return loss, -options.beta * sigmoid(-won), options.beta * sigmoid(lost)


def _sppo_hard(chosen, rejected, options):
    won, lost = chosen - 0.5 / options.beta, rejected + 0.5 / options.beta
    return won**2 + lost**2, 2 * won, 2 * lost


def _slope(z):
    """Of the sigmoid."""
    return sigmoid(z) * sigmoid(-z)


def _apo_zero(chosen, rejected, options):
    beta = options.beta
    won, lost = beta * chosen, beta * rejected
    return sigmoid(-won) + sigmoid(lost), -beta * _slope(won), beta * _slope(lost)


def _apo_down(chosen, rejected, options):
    beta = options.beta
    won, margin = beta * chosen, beta * (chosen - rejected)
    return (
        sigmoid(won) + sigmoid(-margin),
        beta * (_slope(won) - _slope(margin)),
        beta * _slope(margin),
    )


OF_DIFFERENCE: dict[str, Difference] = {
    "sigmoid": _sigmoid,
    "hinge": _hinge,
    "exo_pair": _exo_pair,
    "robust": _robust,
    "discopop": _discopop,
}
OF_MEAN_DIFFERENCE: dict[str, Difference] = {"ipo": _ipo, "sigmoid_norm": _sigmoid}
OF_RATIOS: dict[str, Ratios] = {
    "nca_pair": _nca_pair,
    "bco_pair": _bco_pair,
    "sppo_hard": _sppo_hard,
    "apo_zero": _apo_zero,
    "apo_down": _apo_down,
}
OF_SORTED: dict[str, Difference] = {"aot": _smoothed, "aot_unpaired": _smoothed}
SFT = "sft"
LOSS_TYPES = (*OF_DIFFERENCE, *OF_MEAN_DIFFERENCE, *OF_RATIOS, *OF_SORTED, SFT)


@dataclass(frozen=True)
class Divergence:
    """Between policy and reference: what a log-ratio x scores, f'(e^x), and that score's derivative by x."""

    score: Callable[[np.ndarray, float], np.ndarray]
    derivative: Callable[[np.ndarray, float], np.ndarray]


_LARGEST_EXPONENT = 80.0  # TRL's, beyond which an alpha-divergence stays as it is


def _alpha_exponent(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.minimum((alpha - 1) * x, _LARGEST_EXPONENT)


def _alpha_score(x, alpha):
    return x if abs(alpha - 1) < 1e-6 else (np.exp(_alpha_exponent(x, alpha)) - 1) / (alpha - 1)


def _alpha_derivative(x, alpha):
    if abs(alpha - 1) < 1e-6:
        return np.ones_like(x)
    return np.where((alpha - 1) * x <= _LARGEST_EXPONENT, np.exp(_alpha_exponent(x, alpha)), 0.0)


DIVERGENCES = {
    "reverse_kl": Divergence(lambda x, alpha: x, lambda x, alpha: np.ones_like(x)),
    "forward_kl": Divergence(lambda x, alpha: 1 - np.exp(-x), lambda x, alpha: np.exp(-x)),
    "js_divergence": Divergence(lambda x, alpha: np.log(2) + log_sigmoid(x), lambda x, alpha: sigmoid(-x)),
    "alpha_divergence": Divergence(_alpha_score, _alpha_derivative),
}
