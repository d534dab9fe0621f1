# SPDX-License-Identifier: Apache-2.0
"""Objectives of groups of sampled completions: GRPO and its relatives, as TRL 1.13's GRPOTrainer computes them.

Completions are coupled by their rewards and by normalisers that masks alone decide. So after the rewards each sequence
runs forward and backward on its own, and a caller holds one sequence's arrays at a time.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from mebp.errors import Error
from mebp.objectives.checks import check_choice, check_number, check_unused
from mebp.objectives.pair_losses import sigmoid
from mebp.objectives.ratios import bounded_ratio, clipped, k3
from mebp.objectives.sampling import SamplingCorrection

_CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
_OF_TOKENS = ("cispo", "dapo", "vespo")  # divided by the tokens of all completions
LOSS_TYPES = (*_CLIPPED, "cispo", "sapo", "vespo")
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
        check_number("num_iterations", self.num_iterations, at_least=1)
        self._check_together()

    def _check_together(self) -> None:
        owner = f"loss_type {self.loss_type}"
        if self.loss_type not in _CLIPPED:
            check_unused(owner, ["delta"], self, ", ".join(_CLIPPED))
        if self.loss_type not in (*_CLIPPED, "cispo"):
            check_unused(owner, ["epsilon", "epsilon_high"], self, f"{', '.join(_CLIPPED)}, cispo")
        for name in ("sapo", "vespo"):
            if self.loss_type != name:
                check_unused(owner, [field for field in vars(self) if field.startswith(f"{name}_")], self, name)
        if self.loss_type == "vespo" and self.importance_sampling_level != "token":
            raise Error("loss_type vespo makes a sequence's ratio itself; leave importance_sampling_level at token")
        if self.loss_type == "luspo" and self.importance_sampling_level != "sequence":
            raise Error("loss_type luspo is of sequences; give importance_sampling_level sequence")
        if self.importance_sampling_level == "sequence_token" and self.loss_type not in _CLIPPED:
            raise Error(f"importance_sampling_level sequence_token goes with {', '.join(_CLIPPED)}; choose one of them")
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
        options = self.options
        logps = np.asarray(logps, dtype=np.float64)
        mask = np.ones(len(logps), dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
        old = logps if old is None else np.asarray(old, dtype=np.float64)
        log_ratio = np.where(mask, logps - old, 0.0)
        gate = self._gate(logps, old, advantage, mask, sampled, entropies, entropy_threshold)
        correction, corrected = None, np.zeros(len(logps), dtype=bool)
        if options.sampling_correction and sampled is not None:
            correction, corrected = options.sampling_correction.weights(old, np.asarray(sampled, np.float64), mask)
            if options.loss_type != "vespo":
                gate = gate * correction
        level = self._level(log_ratio, mask)
        ratio, beyond = bounded_ratio(level)
        losses, by_ratio, by_logp = self._policy_loss(ratio, logps, log_ratio, mask, advantage, correction)
        losses, by_ratio, by_logp = gate * losses, gate * by_ratio, gate * by_logp
        metrics = self._clip_metrics(ratio, advantage, mask)
        if self.needs_reference:
            kl, kl_by_logp, far = k3(np.where(mask, np.asarray(reference, dtype=np.float64) - logps, 0.0))
            beyond = beyond | far
            if options.use_bias_correction_kl:
                by_ratio = by_ratio + options.beta * kl
                kl, kl_by_logp = kl * ratio, kl_by_logp * ratio
            losses, by_logp = losses + options.beta * kl, by_logp + options.beta * kl_by_logp
            metrics["kl"] = (float(kl[mask].sum()), float(mask.sum()))
        coefficients = weight * mask * by_logp + self._through_ratio(weight * mask * by_ratio, ratio, mask)
        loss = weight * float(losses[mask].sum())
        bonus = None
        coefficient = options.entropy_coef if entropy_coefficient is None else entropy_coefficient
        if coefficient:
            kept = mask if entropy_threshold is None else mask & (np.asarray(entropies) >= entropy_threshold)
            bonus = np.where(kept, -coefficient * entropy_weight, 0.0)
            loss += float(bonus @ np.where(kept, entropies, 0.0))
        overflows = int(np.sum((beyond | corrected) & mask))
        return SequenceResult(loss, coefficients, bonus, overflows, metrics)

    def _level(self, log_ratio: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """[tokens], the logarithm of the ratio that each token's loss has."""
        if self.options.importance_sampling_level == "token":
            return log_ratio
        return np.full_like(log_ratio, log_ratio.sum() / max(mask.sum(), 1))

    def _through_ratio(self, by_ratio: np.ndarray, ratio: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """From derivatives by each token's ratio to those by log-probabilities."""
        if self.options.importance_sampling_level != "sequence":  # a token's ratio moves with its own
            return by_ratio * ratio
        return np.where(mask, (by_ratio * ratio).sum() / max(mask.sum(), 1), 0.0)

    def _policy_loss(
        self,
        ratio: np.ndarray,
        logps: np.ndarray,
        log_ratio: np.ndarray,
        mask: np.ndarray,
        advantage: float | np.ndarray,
        correction: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each token's loss, and its derivatives by the ratio and by the log-probability, all [tokens]."""
        options, zeros = self.options, np.zeros_like(logps)
        advantage = advantage + zeros
        if options.loss_type == "cispo":
            factor = np.minimum(ratio, options.largest_ratio) * advantage
            return -factor * logps, zeros, -factor
        if options.loss_type == "vespo":
            factor = self._gamma_weight(log_ratio, mask, advantage, correction) * advantage
            return -factor * logps, zeros, -factor
        if options.loss_type == "sapo":
            temperature = np.where(advantage > 0, options.sapo_temperature_pos, options.sapo_temperature_neg)
            z = temperature * (ratio - 1)
            return -4 / temperature * sigmoid(z) * advantage, -4 * sigmoid(z) * sigmoid(-z) * advantage, zeros
        loss, slope = clipped(ratio, advantage, 1 - options.epsilon, options.largest_ratio, options.delta)
        return loss, slope, zeros

    def _gamma_weight(
        self, log_ratio: np.ndarray, mask: np.ndarray, advantage: np.ndarray, correction: np.ndarray | None
    ) -> np.ndarray:
        """VESPO's weight of a sequence, e^lambda w^k e^(-lambda w) with w its ratio; 1 on policy."""
        options, least = self.options, np.log(1e-8)
        total = np.clip(log_ratio, -20.0, 20.0)[mask].sum()
        if correction is not None:
            with np.errstate(divide="ignore"):  # of a masked token's 0
                total += np.clip(np.log(correction), least, 20.0).sum()
        log_ratio = np.clip(total, least, 20.0)
        k = np.where(advantage >= 0, options.vespo_k_pos, options.vespo_k_neg)
        rate = np.maximum(np.where(advantage >= 0, options.vespo_lambda_pos, options.vespo_lambda_neg), 1e-4)
        return np.exp(rate + k * log_ratio - rate * np.exp(log_ratio))

    def _gate(
        self,
        logps: np.ndarray,
        old: np.ndarray,
        advantage: float | np.ndarray,
        mask: np.ndarray,
        sampled: np.ndarray | None,
        entropies: np.ndarray | None,
        entropy_threshold: float | None,
    ) -> np.ndarray:
        """[tokens], by what the policy's loss, though not the divergence, is multiplied."""
        gate = np.ones_like(logps)
        if self.options.off_policy_mask_threshold is not None:  # DeepSeek-V3.2
            before = old if sampled is None else np.asarray(sampled, dtype=np.float64)
            drift = np.nan_to_num(before - logps, nan=0.0)[mask].sum() / max(mask.sum(), 1)
            gate *= (np.asarray(advantage) >= 0) | (drift <= self.options.off_policy_mask_threshold)
        if self.needs_all_entropies:
            gate *= np.asarray(entropies) >= entropy_threshold
        return gate

    def _clip_metrics(
        self, ratio: np.ndarray, advantage: float | np.ndarray, mask: np.ndarray
    ) -> dict[str, tuple[float, float]]:
        options = self.options
        if options.loss_type == "cispo":
            clips = {"cispo_clip_ratio": (ratio > options.largest_ratio) & (advantage > 0)}
        elif options.loss_type in _CLIPPED:
            low = (ratio < 1 - options.epsilon) & (advantage < 0)
            high = (ratio > options.largest_ratio) & (advantage > 0)
            clips = {"clip_ratio/low_mean": low, "clip_ratio/high_mean": high, "clip_ratio/region_mean": low | high}
        else:
            return {}
        return {name: (float(np.sum(clip & mask)), float(mask.sum())) for name, clip in clips.items()}


def _over_batches(lengths: np.ndarray, batch: int | None) -> np.ndarray:
    """1 over the tokens of a sequence's batch, over the number of batches."""
    batch = len(lengths) if batch is None else batch
    if batch < 1 or len(lengths) % batch:
        raise Error(
            f"{len(lengths)} sequences are no whole number of batches of {batch}; choose a batch that divides them"
        )
    tokens = lengths.reshape(-1, batch).sum(axis=1)
    return np.repeat(1 / (np.maximum(tokens, 1.0) * len(tokens)), batch)
