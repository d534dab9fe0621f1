# SPDX-License-Identifier: Apache-2.0
"""Objectives of preference pairs: DPO and its relatives, as TRL 1.13's DPOTrainer computes them.

Each completion enters a loss by one number, the sum of its tokens' log-probabilities, and gets one number back: the
coefficient of that sum. So a caller may run a sequence forward and backward with the coefficients `token_weights`,
which lengths alone decide, and multiply its adapter gradient by the number once that is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mebp.errors import Error
from mebp.objectives import pair_losses
from mebp.objectives.checks import check_choice, check_number, check_owned, check_unused
from mebp.objectives.pair_losses import DIVERGENCES, OF_DIFFERENCE, OF_MEAN_DIFFERENCE, OF_RATIOS, OF_SORTED, SFT

_SMOOTHED = ("exo_pair", "robust", *OF_SORTED)
_WITH_DIVERGENCES = (*OF_DIFFERENCE, *OF_MEAN_DIFFERENCE)


@dataclass(frozen=True)
class DPOOptions:
    """The options of TRL's DPOConfig that its loss depends on, by its names and with its defaults.

    Raises mebp.Error where one is wrong, or would be ignored.
    """

    loss_type: str | Sequence[str] = "sigmoid"
    loss_weights: Sequence[float] | None = None  # of several loss types; 1 each
    beta: float = 0.1
    label_smoothing: float = 0.0  # exo_pair, robust, aot, aot_unpaired
    f_divergence_type: str = "reverse_kl"
    f_alpha_divergence_coef: float = 0.5
    ld_alpha: float | None = None  # weight of tokens beyond the shorter completion's length (LD-DPO)
    discopop_tau: float = 0.05
    use_weighting: bool = False  # by the policy's own probabilities of both completions (WPO)

    def __post_init__(self) -> None:
        types = (self.loss_type,) if isinstance(self.loss_type, str) else tuple(self.loss_type)
        object.__setattr__(self, "loss_type", types)
        if not types:
            raise Error(f"loss_type is empty; choose {', '.join(pair_losses.LOSS_TYPES)}")
        for loss_type in types:
            check_choice("loss_type", loss_type, pair_losses.LOSS_TYPES)
        if self.loss_weights is not None:
            if len(self.loss_weights) != len(types):
                raise Error(
                    f"loss_weights has {len(self.loss_weights)} numbers for {len(types)} loss types; give one each"
                )
            for weight in self.loss_weights:
                check_number("loss_weights", weight)
        check_number("beta", self.beta, above=0)
        check_number("label_smoothing", self.label_smoothing, at_least=0, at_most=1)
        check_number("discopop_tau", self.discopop_tau, above=0)
        check_number("f_alpha_divergence_coef", self.f_alpha_divergence_coef)
        if self.ld_alpha is not None:
            check_number("ld_alpha", self.ld_alpha, at_least=0, at_most=1)
        check_choice("f_divergence_type", self.f_divergence_type, DIVERGENCES)
        self._check_together(types)

    def _check_together(self, types: Sequence[str]) -> None:
        owner = f"loss_type {', '.join(types)}"
        if not set(types) & set(_SMOOTHED):
            check_unused(owner, ["label_smoothing"], self, ", ".join(_SMOOTHED))
        check_owned(types, pair_losses.LOSS_TYPES, self)
        if self.f_divergence_type != "alpha_divergence":
            check_unused(
                f"f_divergence_type {self.f_divergence_type}", ["f_alpha_divergence_coef"], self, "alpha_divergence"
            )
        if "exo_pair" in types and not 0 < self.label_smoothing < 1:
            raise Error(
                f"label_smoothing is {self.label_smoothing:g}; exo_pair needs one between 0 and 1, such as 1e-3"
            )
        if "robust" in types and not self.label_smoothing < 0.5:
            raise Error(f"label_smoothing is {self.label_smoothing:g}; robust needs one below 0.5, such as 0.1")
        without = [loss_type for loss_type in types if loss_type not in (*_WITH_DIVERGENCES, SFT)]
        if self.f_divergence_type != "reverse_kl" and (without or set(types) == {SFT}):
            raise Error(
                f"f_divergence_type {self.f_divergence_type} has no meaning for loss_type {[*without, SFT][0]}; "
                f"leave it out, or choose {', '.join(_WITH_DIVERGENCES)}"
            )
        if self.use_weighting and (barred := [each for each in types if each in (*OF_SORTED, SFT)]):
            raise Error(f"use_weighting weighs pairs, which {barred[0]} does not have; leave one of them out")
        if self.ld_alpha is not None and SFT in types:
            raise Error("ld_alpha and loss_type sft weigh the same tokens differently; leave one of them out")

    @property
    def weights(self) -> Sequence[float]:
        return self.loss_weights if self.loss_weights is not None else [1.0] * len(self.loss_type)


@dataclass(frozen=True)
class Scored:
    """One completion, as far as a loss sees it."""

    logp: float  # the policy's log-probability of the completion, in nats
    reference: float  # the reference's
    length: int  # tokens of the completion
    weight: float = 1.0  # with use_weighting, WPO's of this completion

    @property
    def ratio(self) -> float:
        return self.logp - self.reference


@dataclass(frozen=True)
class PairResult:
    """A pair's share of the loss, and the coefficients of both completions.

    The coefficient of a completion's token t is `chosen` (or `rejected`) times DPO.token_weights()[t].
    """

    loss: float
    chosen: float
    rejected: float


class DPO:
    """From the log-probabilities of chosen and rejected completions to loss and coefficients."""

    def __init__(self, options: DPOOptions | None = None) -> None:
        self.options = options or DPOOptions()
        types = set(self.options.loss_type)
        self._of_means = types <= set(OF_MEAN_DIFFERENCE)

    @property
    def needs_batch(self) -> bool:
        """Whether no coefficient is known before all completions of a batch have been scored: call `batch`."""
        return not set(self.options.loss_type).isdisjoint(OF_SORTED)

    @property
    def needs_reference(self) -> bool:
        return set(self.options.loss_type) != {SFT}

    @property
    def opposite(self) -> bool:
        """Whether `rejected` is exactly minus `chosen`: then one adapter gradient serves both completions."""
        types = set(self.options.loss_type)
        alike = self._of_means or types <= {*OF_DIFFERENCE, "aot"}
        return alike and self.options.f_divergence_type == "reverse_kl"

    def token_weights(self, length: int, other_length: int) -> np.ndarray:
        """float64 [length]: what a completion's number is multiplied by to be its tokens' coefficients.

        All ones; 1 / length where the loss is of means (ipo, sigmoid_norm); ld_alpha times that from the position on
        where the pair's other completion, of `other_length` tokens, has ended.
        """
        weights = self._kept(length, other_length)
        return weights / length if self._of_means else weights

    def score(
        self, logps: np.ndarray, other_length: int, reference: float = 0.0, log_squares: np.ndarray | None = None
    ) -> Scored:
        """What a loss needs of one completion.

        logps: float [tokens of the completion], the policy's, in nats, at temperature 1.
        other_length: tokens of the pair's other completion.
        reference: what `total` gives for the reference's log-probabilities of the same tokens.
        log_squares: [tokens], with use_weighting: the logarithm of the sum of the squares of all tokens' probabilities
        at each position.
        """
        weight = 1.0
        if self.options.use_weighting:
            weight = float(np.exp(np.mean(np.asarray(logps, dtype=np.float64) - log_squares)))
        return Scored(self.total(logps, other_length), reference, len(logps), weight)

    def total(self, logps: np.ndarray, other_length: int) -> float:
        """A completion's log-probability, in which ld_alpha weighs the tokens that the other has no match for."""
        return float(np.sum(np.asarray(logps, dtype=np.float64) * self._kept(len(logps), other_length)))

    def pair(self, chosen: Scored, rejected: Scored, pairs: int, chosen_tokens: int = 1) -> PairResult:
        """One pair on its own, where not needs_batch.

        pairs: how many pairs the step has, for the loss is their mean.
        chosen_tokens: tokens of all the chosen completions of the step, whose mean the loss type sft is.
        """
        if self.needs_batch:
            raise ValueError("this loss needs all pairs of a batch at once")
        return self._results([chosen], [rejected], pairs, chosen_tokens)[0]

    def batch(self, pairs: Sequence[tuple[Scored, Scored]], batches: int = 1) -> list[PairResult]:
        """All pairs (chosen, rejected) of a batch; the loss is the mean over them and over the step's `batches`."""
        chosen, rejected = zip(*pairs, strict=True)
        tokens = sum(each.length for each in chosen)
        return self._results(chosen, rejected, len(pairs) * batches, tokens * batches)

    def metrics(self, chosen: Scored, rejected: Scored) -> dict[str, float]:
        """A pair's, by TRL's names; TRL logs their mean over pairs."""
        won, lost = self.options.beta * chosen.ratio, self.options.beta * rejected.ratio
        return pair_losses.reward_metrics(won, lost, chosen.logp, rejected.logp)

    def _kept(self, length: int, other_length: int) -> np.ndarray:
        weights = np.ones(length)
        if self.options.ld_alpha is not None:
            weights[other_length:] = self.options.ld_alpha
        return weights

    def _results(
        self, chosen: Sequence[Scored], rejected: Sequence[Scored], pairs: int, chosen_tokens: int
    ) -> list[PairResult]:
        won, lost = _Side(chosen), _Side(rejected)
        loss, by_won, by_lost = np.zeros((3, len(chosen)))
        for loss_type, weight in zip(self.options.loss_type, self.options.weights, strict=True):
            if loss_type == SFT:
                loss = loss - weight / chosen_tokens * won.logp
                by_won = by_won - weight / chosen_tokens
                continue
            one, one_won, one_lost = self._loss(loss_type, won, lost)
            share = weight / pairs * won.weight * lost.weight
            loss, by_won, by_lost = loss + share * one, by_won + share * one_won, by_lost + share * one_lost
        return [PairResult(*map(float, each)) for each in zip(loss, by_won, by_lost, strict=True)]

    def _loss(self, loss_type: str, won: "_Side", lost: "_Side") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A loss type's losses [pairs], and what by the chosen and the rejected multiplies token_weights."""
        options = self.options
        if loss_type in OF_RATIOS:
            return OF_RATIOS[loss_type](won.ratio, lost.ratio, options)
        if loss_type == "aot":
            loss, derivative = _of_ranks(won.logp - lost.logp, won.reference - lost.reference, options)
            return loss, derivative, -derivative
        if loss_type == "aot_unpaired":
            loss, by_won = _of_ranks(won.ratio, lost.ratio, options)
            return loss, by_won, -_of_ranks(lost.ratio, won.ratio, options, sign=-1.0)[1]
        divergence, alpha = DIVERGENCES[options.f_divergence_type], options.f_alpha_divergence_coef
        won_score, lost_score = divergence.score(won.ratio, alpha), divergence.score(lost.ratio, alpha)
        won_slope, lost_slope = divergence.derivative(won.ratio, alpha), divergence.derivative(lost.ratio, alpha)
        if loss_type in OF_DIFFERENCE:
            loss, derivative = OF_DIFFERENCE[loss_type](won_score - lost_score, options)
            return loss, derivative * won_slope, -derivative * lost_slope
        difference = won_score / won.length - lost_score / lost.length
        loss, derivative = OF_MEAN_DIFFERENCE[loss_type](difference, options)
        if not self._of_means:
            won_slope, lost_slope = won_slope / won.length, lost_slope / lost.length
        return loss, derivative * won_slope, -derivative * lost_slope


class _Side:
    """All chosen completions, or all rejected ones, as arrays [pairs]."""

    def __init__(self, completions: Sequence[Scored]) -> None:
        fields = [[each.logp, each.reference, each.length, each.weight] for each in completions]
        self.logp, self.reference, self.length, self.weight = np.array(fields, dtype=np.float64).T
        self.ratio = self.logp - self.reference


def _of_ranks(
    values: np.ndarray, others: np.ndarray, options: DPOOptions, sign: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """AOT: the loss of each value less the other of the same rank (times `sign`), and its derivative by that."""
    order = np.argsort(values, kind="stable")
    difference = np.empty_like(values)
    difference[order] = sign * (values[order] - np.sort(others))
    return OF_SORTED["aot"](difference, options)
