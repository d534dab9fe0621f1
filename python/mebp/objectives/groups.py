# SPDX-License-Identifier: Apache-2.0
"""Objectives of groups of sampled completions: GRPO and its relatives, as TRL 1.13's GRPOTrainer computes them.

Completions are coupled by their rewards and by normalisers that masks alone decide. So after the rewards each sequence
runs forward and backward on its own, and a caller holds one sequence's arrays at a time.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from mebp.errors import Error
from mebp.numbers import whole_number
from mebp.objectives.checks import check_choice, check_number, check_owned, check_unused
from mebp.objectives.group_losses import CLIPPED, LOSSES, Tokens
from mebp.objectives.ratios import bounded_ratio, k3
from mebp.objectives.sampling import SamplingCorrection

_OF_TOKENS = ("cispo", "dapo", "vespo")  # divided by the tokens of all completions
LOSS_TYPES = tuple(LOSSES)
LEVELS = ("token", "sequence", "sequence_token")


@dataclass(frozen=True)
class GRPOOptions:
    """The options of TRL's GRPOConfig that its loss depends on, by its names and with its defaults.

    Raises mebp.Error where one is wrong, or would be ignored.
    """

    loss_type: str = "dapo"
    beta: float = 0.0  # of the divergence from the reference; at 0 no reference is needed
    use_bias_correction_kl: bool = True  # the divergence times the ratio
    epsilon: float = 0.2
    epsilon_high: float | None = None  # epsilon; with cispo the largest ratio itself
    delta: float | None = None  # the largest ratio where the advantage is negative (INTELLECT-2)
    importance_sampling_level: str = "token"  # "sequence" is GSPO, "sequence_token" GSPO-token
    num_iterations: int = 1  # updates of a rollout
    sapo_temperature_pos: float = 1.0
    sapo_temperature_neg: float = 1.05
    vespo_k_pos: float = 2.0
    vespo_lambda_pos: float = 3.0
    vespo_k_neg: float = 3.0
    vespo_lambda_neg: float = 2.0
    top_entropy_quantile: float = 1.0  # of the tokens, by entropy, that the policy's loss keeps
    entropy_coef: float = 0.0
    off_policy_mask_threshold: float | None = None
    sampling_correction: SamplingCorrection | None = None  # TRL's vllm_importance_sampling_*
    mask_truncated_completions: bool = False

    def __post_init__(self) -> None:
        check_choice("loss_type", self.loss_type, LOSS_TYPES)
        check_choice("importance_sampling_level", self.importance_sampling_level, LEVELS)
        for name in ("beta", "epsilon", "entropy_coef", "vespo_k_pos", "vespo_k_neg"):
            check_number(name, getattr(self, name), at_least=0)
        for name in ("sapo_temperature_pos", "sapo_temperature_neg", "vespo_lambda_pos", "vespo_lambda_neg"):
            check_number(name, getattr(self, name), above=0)
        for name in ("epsilon_high", "delta", "off_policy_mask_threshold"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), at_least=0)
        check_number("top_entropy_quantile", self.top_entropy_quantile, at_least=0, at_most=1)
        whole_number("num_iterations", self.num_iterations, at_least=1)
        self._check_together()

    def _check_together(self) -> None:
        owner = f"loss_type {self.loss_type}"
        if self.loss_type not in CLIPPED:
            check_unused(owner, ["delta"], self, ", ".join(CLIPPED))
        if self.loss_type not in (*CLIPPED, "cispo"):
            check_unused(owner, ["epsilon", "epsilon_high"], self, f"{', '.join(CLIPPED)}, cispo")
        check_owned([self.loss_type], LOSS_TYPES, self)
        if self.loss_type == "vespo" and self.importance_sampling_level != "token":
            raise Error("loss_type vespo makes a sequence's ratio itself; leave importance_sampling_level at token")
        if self.loss_type == "luspo" and self.importance_sampling_level != "sequence":
            raise Error("loss_type luspo is of sequences; give importance_sampling_level sequence")
        if self.importance_sampling_level == "sequence_token" and self.loss_type not in CLIPPED:
            raise Error(f"importance_sampling_level sequence_token goes with {', '.join(CLIPPED)}; choose one of them")
        if self.loss_type == "vespo" and self.sampling_correction and not self.sampling_correction.of_tokens:
            raise Error("loss_type vespo needs a sampling correction of tokens; choose token_truncate or token_mask")

    @property
    def largest_ratio(self) -> float:
        """Beyond which a ratio is clipped: 1 + epsilon_high, or with cispo epsilon_high itself."""
        high = self.epsilon if self.epsilon_high is None else self.epsilon_high
        return high if self.loss_type == "cispo" else 1 + high


@dataclass(frozen=True)
class SequenceResult:
    """A sequence's share of the loss, and its tokens' coefficients, float64 [tokens]."""

    loss: float
    coefficients: np.ndarray  # dL/dlogp
    entropy_coefficients: np.ndarray | None  # dL/dH; None without an entropy bonus
    overflows: int  # tokens where a ratio was beyond e^20
    # By TRL's names, each a sum and what to divide the sum over sequences by.
    metrics: dict[str, tuple[float, float]] = field(default_factory=dict)


class GRPO:
    """From one completion's log-probabilities and its advantage to loss and coefficients."""

    def __init__(self, options: GRPOOptions | None = None) -> None:
        self.options = options or GRPOOptions()

    @property
    def needs_reference(self) -> bool:
        return self.options.beta > 0

    @property
    def needs_old(self) -> bool:
        """Whether log-probabilities from before the first update must be kept, where a rollout has but one step."""
        return self.options.num_iterations > 1

    @property
    def note(self) -> str | None:
        """What is worth saying before training, in one line."""
        options = self.options
        if options.importance_sampling_level == "sequence" and options.loss_type in (
            "bnpo",
            "dr_grpo",
            "dapo",
            "cispo",
        ):
            return (
                f"with ratios of sequences, loss_type {options.loss_type} weighs each sequence by its length; "
                "GSPO's paper has loss_type grpo"
            )
        return None

    @property
    def needs_all_entropies(self) -> bool:
        """Whether all sequences of a step must be scored before the first goes backward: see entropy_threshold."""
        return self.options.top_entropy_quantile < 1

    def mask(self, ids: Sequence[int], end_tokens: Collection[int], written: np.ndarray | None = None) -> np.ndarray:
        """bool [tokens of the completion]: which tokens count.

        None of them where the completion does not end with one of `end_tokens` and mask_truncated_completions is set.
        written: [tokens], 0 where not the model but a tool wrote the token.
        """
        mask = np.ones(len(ids), dtype=bool) if written is None else np.array(written, dtype=bool)
        if self.options.mask_truncated_completions and ids[-1] not in end_tokens:
            mask[:] = False
        return mask

    def weights(
        self, lengths: Sequence[int], max_completion_length: int, batch: int | None = None, tokens: float | None = None
    ) -> np.ndarray:
        """float64 [sequences]: what multiplies each token's loss, for all sequences of a step; no forward is needed.

        lengths: tokens of each completion that its mask counts.
        max_completion_length: the limit that completions were written with, by which dr_grpo divides.
        batch: sequences that TRL would take at once (per_device_train_batch_size), which divide the step without rest;
        all of them where not given. Only bnpo depends on it.
        tokens: by what dapo, cispo and vespo divide; by default all tokens of the step. Where one generation serves
        several steps, TRL divides by the generation's tokens over the number of steps.
        """
        lengths = np.asarray(lengths, dtype=np.float64)
        count, loss_type = len(lengths), self.options.loss_type
        if loss_type in _OF_TOKENS:
            return np.full(count, 1 / max(lengths.sum() if tokens is None else tokens, 1.0))
        if loss_type == "dr_grpo":
            return np.full(count, 1 / (count * max_completion_length))
        if loss_type == "luspo":
            return np.full(count, 1 / count)
        if loss_type == "bnpo":
            return _over_batches(lengths, batch)
        return 1 / (np.maximum(lengths, 1.0) * count)

    def entropy_weights(self, kept: Sequence[int], batch: int | None = None) -> np.ndarray:
        """float64 [sequences]: what multiplies each token's entropy in the bonus, a mean over tokens.

        kept: tokens of each completion that the mask, and the entropy's threshold, keep.
        batch: as in `weights`.
        """
        return _over_batches(np.asarray(kept, dtype=np.float64), batch)

    def sequence(
        self,
        logps: np.ndarray,
        advantage: float | np.ndarray,
        weight: float,
        *,
        mask: np.ndarray | None = None,
        old: np.ndarray | None = None,
        reference: np.ndarray | None = None,
        sampled: np.ndarray | None = None,
        entropies: np.ndarray | None = None,
        entropy_threshold: float | None = None,
        entropy_weight: float = 0.0,
        entropy_coefficient: float | None = None,
    ) -> SequenceResult:
        """One completion.

        logps: float [tokens of the completion], the policy's, in nats, at the temperature of the rollout.
        advantage: one number, or [tokens].
        weight: of this sequence, from `weights`.
        mask: [tokens], 0 where a token does not count: a tool's output, or a completion cut off at the limit.
        old: [tokens], the policy's from before the rollout's first update; None means that it is the policy itself.
        reference: [tokens], with beta.
        sampled: [tokens], the sampler's own, NaN where it has none: for sampling_correction and the off-policy mask.
        entropies: [tokens], with top_entropy_quantile or a bonus; entropy_threshold: of all tokens of the step.
        entropy_weight: of this sequence, from `entropy_weights`.
        entropy_coefficient: instead of the options' (EntropyController.applied).
        """
        tokens = _tokens(logps, advantage, mask, old, reference, sampled, entropies)
        options, metrics = self.options, {}
        correction, corrected = self._correction(tokens)
        ratio, beyond = bounded_ratio(self._log_ratio(tokens))
        losses, by_ratio, by_logp = LOSSES[options.loss_type](tokens, ratio, correction, options)
        gate = self._gate(tokens, correction, entropy_threshold)
        losses, by_ratio, by_logp = gate * losses, gate * by_ratio, gate * by_logp
        if self.needs_reference:
            kl, kl_by_logp, far = k3(np.where(tokens.mask, tokens.reference - tokens.logps, 0.0))
            beyond = beyond | far
            if options.use_bias_correction_kl:
                by_ratio = by_ratio + options.beta * kl
                kl, kl_by_logp = kl * ratio, kl_by_logp * ratio
            losses, by_logp = losses + options.beta * kl, by_logp + options.beta * kl_by_logp
            metrics["kl"] = tokens.counted(kl)
        loss = weight * float(losses[tokens.mask].sum())
        coefficients = weight * tokens.mask * (by_logp + self._through_ratio(tokens, by_ratio * ratio))
        coefficient = options.entropy_coef if entropy_coefficient is None else entropy_coefficient
        bonus = None
        if coefficient:
            kept = tokens.mask if entropy_threshold is None else tokens.mask & (tokens.entropies >= entropy_threshold)
            bonus = np.where(kept, -coefficient * entropy_weight, 0.0)
            loss += float(bonus @ np.where(kept, tokens.entropies, 0.0))
        overflows = int(np.sum((beyond | corrected) & tokens.mask))
        return SequenceResult(loss, coefficients, bonus, overflows, metrics | self._metrics(tokens, ratio))

    def _log_ratio(self, tokens: Tokens) -> np.ndarray:
        """[tokens], the logarithm of the ratio that each token's loss has."""
        if self.options.importance_sampling_level == "token":
            return tokens.log_ratio
        return np.full_like(tokens.logps, tokens.mean(tokens.log_ratio))

    def _through_ratio(self, tokens: Tokens, by_log_ratio: np.ndarray) -> np.ndarray:
        """From derivatives by the logarithm of each token's ratio to those by log-probabilities."""
        if self.options.importance_sampling_level != "sequence":  # a token's ratio moves with its own
            return by_log_ratio
        return np.full_like(by_log_ratio, tokens.mean(by_log_ratio))

    def _correction(self, tokens: Tokens) -> tuple[np.ndarray | None, np.ndarray]:
        """[tokens], the sampler's correction, and where it was bounded."""
        if self.options.sampling_correction is None or tokens.sampled is None:
            return None, np.zeros_like(tokens.mask)
        return self.options.sampling_correction.weights(tokens.old, tokens.sampled, tokens.mask)

    def _gate(self, tokens: Tokens, correction: np.ndarray | None, entropy_threshold: float | None) -> np.ndarray:
        """[tokens], by what the policy's loss, though not the divergence, is multiplied."""
        gate = np.ones_like(tokens.logps)
        if self.options.off_policy_mask_threshold is not None:  # DeepSeek-V3.2
            before = tokens.old if tokens.sampled is None else tokens.sampled
            drift = tokens.mean(np.nan_to_num(before - tokens.logps, nan=0.0))
            gate *= (tokens.advantage >= 0) | (drift <= self.options.off_policy_mask_threshold)
        if self.needs_all_entropies:
            gate *= tokens.entropies >= entropy_threshold
        if correction is not None and self.options.loss_type != "vespo":  # which has it in its own weight
            gate *= correction
        return gate

    def _metrics(self, tokens: Tokens, ratio: np.ndarray) -> dict[str, tuple[float, float]]:
        options, found = self.options, {}
        high = (ratio > options.largest_ratio) & (tokens.advantage > 0)
        if options.loss_type == "cispo":
            found = {"cispo_clip_ratio": high}
        elif options.loss_type in CLIPPED:
            low = (ratio < 1 - options.epsilon) & (tokens.advantage < 0)
            found = {"clip_ratio/low_mean": low, "clip_ratio/high_mean": high, "clip_ratio/region_mean": low | high}
        if tokens.entropies is not None:
            found["entropy"] = tokens.entropies
        metrics = {name: tokens.counted(values) for name, values in found.items()}
        if tokens.sampled is not None:
            difference = np.abs(tokens.old - tokens.sampled)
            known = difference[tokens.mask & ~np.isnan(difference)]
            metrics["sampling/sampling_logp_difference/mean"] = float(known.sum()), float(len(known))
        return metrics


def _tokens(
    logps: np.ndarray,
    advantage: float | np.ndarray,
    mask: np.ndarray | None,
    old: np.ndarray | None,
    reference: np.ndarray | None,
    sampled: np.ndarray | None,
    entropies: np.ndarray | None,
) -> Tokens:
    logps = np.asarray(logps, dtype=np.float64)
    mask = np.ones(len(logps), dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    others = (None if each is None else np.asarray(each, np.float64) for each in (reference, sampled, entropies))
    old = logps if old is None else np.asarray(old, dtype=np.float64)
    return Tokens(logps, old, np.broadcast_to(np.float64(advantage), logps.shape), mask, *others)


def _over_batches(lengths: np.ndarray, batch: int | None) -> np.ndarray:
    """1 over the tokens of a sequence's batch, over the number of batches."""
    batch = len(lengths) if batch is None else batch
    if batch < 1 or len(lengths) % batch:
        raise Error(
            f"{len(lengths)} sequences are no whole number of batches of {batch}; choose a batch that divides them"
        )
    tokens = lengths.reshape(-1, batch).sum(axis=1)
    return np.repeat(1 / (np.maximum(tokens, 1.0) * len(tokens)), batch)
