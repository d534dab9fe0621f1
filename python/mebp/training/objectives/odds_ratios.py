# SPDX-License-Identifier: Apache-2.0
"""Preference pairs by the ratio of their odds, beside the likelihood of what is chosen (ORPO)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mebp.data.preferences import Preference
from mebp.objectives.orpo import ORPO, Answer, OddsResult, ORPOOptions
from mebp.training.objective_options import parts_of
from mebp.training.objectives.pair_ways import REJECTED
from mebp.training.objectives.preferences import OfPair, Preferences
from mebp.training.options import TrainingOptions


class OddsRatios(Preferences):
    metrics = of_pairs = (*Preferences.metrics, "nll_loss", "log_odds_ratio", "log_odds_chosen")
    waits = REJECTED  # the likelihood's part of the chosen one's gradient is not multiplied by the pair's number

    @classmethod
    def formula_of(cls, options: TrainingOptions) -> ORPO:
        return ORPO(parts_of(options.objective, options.objective_options)[ORPOOptions])

    def completions(self, pair: Preference) -> tuple[OfPair, OfPair]:
        chosen, rejected = super().completions(pair)
        return replace(chosen, whole=True), rejected

    def score(self, completion: OfPair, logprobs: np.ndarray, reference: float) -> Answer:
        return self._formula.score(completion.of(logprobs), logprobs[0, : -completion.length])

    def weights(self, completion: OfPair) -> np.ndarray:
        return self._formula.token_weights(completion.length)

    def coefficients(self, completion: OfPair, number: float, tokens: int) -> np.ndarray:
        of_odds = super().coefficients(completion, number, tokens)
        return of_odds + self._formula.likelihood_coefficient(tokens) if completion.whole else of_odds

    def numbers_of(self, result: OddsResult, scored: tuple[Answer, Answer]) -> dict[str, float]:
        return super().numbers_of(result, scored) | {"nll_loss": result.nll}

    def metrics_of(self, found: Sequence[Mapping[str, float]]) -> dict[str, float]:
        return super().metrics_of(found) | {"nll_loss": sum(each["nll_loss"] for each in found)}
