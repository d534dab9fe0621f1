# SPDX-License-Identifier: Apache-2.0
"""ORPO, preferences without a reference, as the ORPOTrainer among TRL 1.13's experiments computes it.

The loss is the mean of -log p over the prompts and chosen answers of a step, as a language model learns them, and of
each pair beta times -log sg(the logarithm of the ratio of both answers' odds). Answers enter the odds by the mean of
their tokens' log-probabilities. So the rejected answer's coefficients are one number times what lengths alone decide;
the chosen one's are a sum of such and of those of the likelihood.
"""

from dataclasses import dataclass

import numpy as np

from mebp.objectives.checks import check_number
from mebp.objectives.pair_losses import log_sigmoid, reward_metrics, sigmoid

_LARGEST_MEAN = -1e-6  # above it, where odds grow beyond all bounds, their logarithm goes on as its tangent


@dataclass(frozen=True)
class ORPOOptions:
    """The options of TRL's ORPOConfig that its loss depends on, by its names and with its defaults."""

    beta: float = 0.1

    def __post_init__(self) -> None:
        check_number("beta", self.beta, above=0)


@dataclass(frozen=True)
class Answer:
    """One answer behind its prompt, as far as the loss sees it, in nats."""

    logp: float  # the mean of its tokens' log-probabilities
    whole: float  # the sum of those of the prompt's tokens and its own; a rejected one's is not asked for


@dataclass(frozen=True)
class OddsResult:
    """A pair's share of the loss, and the coefficients of both answers by their odds.

    The coefficient of an answer's token t is `chosen` (or `rejected`) times ORPO.token_weights()[t]; all tokens of the
    chosen sequence, the prompt's too, have ORPO.likelihood_coefficient() added.
    """

    loss: float
    nll: float  # what of the loss is the likelihood's
    chosen: float
    rejected: float


class ORPO:
    """From the log-probabilities of prompts, chosen and rejected answers to loss and coefficients."""

    needs_batch = False  # a pair's numbers depend on this pair alone, and on the step's lengths
    needs_reference = False

    def __init__(self, options: ORPOOptions | None = None) -> None:
        self.options = options or ORPOOptions()

    def token_weights(self, length: int) -> np.ndarray:
        """float64 [length]: what an answer's number is multiplied by to be its tokens' coefficients."""
        return np.full(length, 1 / length)

    def likelihood_coefficient(self, chosen_tokens: int) -> float:
        """Of each of the `chosen_tokens` of the step's prompts and chosen answers."""
        return -1 / chosen_tokens

    def score(self, logps: np.ndarray, prompt: np.ndarray | None = None) -> Answer:
        """What the loss needs of one answer.

        logps: float [tokens of the answer], the policy's, in nats, at temperature 1.
        prompt: likewise of the prompt's tokens but the first, which nothing predicts; of a chosen answer.
        """
        own = np.asarray(logps, dtype=np.float64)
        before = 0.0 if prompt is None else float(np.sum(np.asarray(prompt, dtype=np.float64)))
        return Answer(float(np.mean(own)), before + float(np.sum(own)))

    def pair(self, chosen: Answer, rejected: Answer, pairs: int, chosen_tokens: int) -> OddsResult:
        """One pair on its own.

        pairs: how many pairs the step has, over which the odds' loss is a mean.
        chosen_tokens: tokens of all the prompts and chosen answers of the step, but each sequence's first, over which
        the likelihood is one.
        """
        (won, won_slope), (lost, lost_slope) = log_odds(chosen.logp), log_odds(rejected.logp)
        share, nll = self.options.beta / pairs, -chosen.whole / chosen_tokens
        by_ratio = -share * float(sigmoid(lost - won))
        return OddsResult(
            nll - share * float(log_sigmoid(won - lost)), nll, by_ratio * won_slope, -by_ratio * lost_slope
        )

    def metrics(self, chosen: Answer, rejected: Answer) -> dict[str, float]:
        """A pair's, by TRL's names; TRL logs their mean over pairs. A step's nll_loss is the sum of OddsResult.nll."""
        won, lost = self.options.beta * chosen.logp, self.options.beta * rejected.logp
        ratio = log_odds(chosen.logp)[0] - log_odds(rejected.logp)[0]
        odds = {"log_odds_ratio": float(log_sigmoid(ratio)), "log_odds_chosen": ratio}
        return reward_metrics(won, lost, chosen.logp, rejected.logp) | odds


def log_odds(logp: float) -> tuple[float, float]:
    """log(p / (1 - p)) of p = e^logp, and its derivative by logp. From -1e-6 on, it is its tangent there."""
    inside = min(logp, _LARGEST_MEAN)
    # Each where it has no cancellation.
    rest = np.log1p(-np.exp(inside)) if inside < -np.log(2) else np.log(-np.expm1(inside))
    slope = -1 / np.expm1(inside)
    return float(inside - rest + slope * (logp - inside)), float(slope)
