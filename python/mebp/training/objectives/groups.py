# SPDX-License-Identifier: Apache-2.0
"""Rewards of groups of completions, which are compared with one another (GRPO and its relatives)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from mebp.data.rollouts import Rollout
from mebp.errors import Error
from mebp.objectives.advantages import AdvantageOptions, EqualGroups, advantages
from mebp.objectives.entropy import entropy_threshold
from mebp.objectives.groups import GRPO, GRPOOptions, SequenceResult
from mebp.rewards.sampled import Progress
from mebp.rollouts import RolloutOptions
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.objective_options import parts_of
from mebp.training.objectives.base import check_compiled
from mebp.training.objectives.rollouts import OVERFLOWS, Added, Kept, Rollouts
from mebp.training.options import TrainingOptions

_EQUAL = "frac_reward_zero_std"  # groups whose rewards are all the same
_UNSCORED = "completions/unscored"  # those that no reward scored, whose advantage is 0


@dataclass
class _Scored(Kept):
    advantage: float
    mask: np.ndarray  # which of the completion's tokens count
    sampled: np.ndarray | None = None  # its writer's log-probabilities
    old: np.ndarray | None = None  # the policy's before the first update
    reference: np.ndarray | None = None


class Groups(Rollouts):
    kept, writing, curve = _Scored, RolloutOptions, ("reward", "reward")
    watched = MappingProxyType({"reward": "reward", "spread": "reward_std"})

    @classmethod
    def check_options(cls, options: TrainingOptions) -> None:
        super().check_options(options)
        parts = parts_of(options.objective, options.objective_options)
        if parts[RolloutOptions].group < 2:
            raise Error("--group is 1; a group needs at least 2 completions, for an advantage compares them")
        if options.reference is not None and not GRPO(parts[GRPOOptions]).needs_reference:
            raise Error("--reference is compared with where --beta is above 0; give one, or leave it out")

    def __init__(self, options: TrainingOptions, tokenizer: Tokenizer, length: int) -> None:
        parts = parts_of(options.objective, options.objective_options)
        self._grpo, writing = GRPO(parts[GRPOOptions]), parts[RolloutOptions]
        if self._grpo.options.entropy_coef:
            check_compiled(options.bundle, "entropy_bonus", "--entropy-coef needs the derivative of the head's entropy")
        self._advantages = replace(parts[AdvantageOptions], num_generations=writing.group)
        self._equal = EqualGroups()
        self.own_metrics = tuple(self._names())
        super().__init__(options, tokenizer, length, writing, least=2)

    def _names(self) -> Iterator[str]:
        yield from ("reward", "reward_std", _EQUAL, _UNSCORED, "entropy")
        if self._grpo.needs_reference:
            yield "kl"
        if self._updates > 1:
            yield "clip_ratio/region_mean"
        yield OVERFLOWS

    def _have_own(self, rows: Sequence[Rollout]) -> bool:
        every = [each for row in rows for each in row.completions]
        return all(each.rewards is not None or each.advantage is not None for each in every)

    def begin(self, session: Session) -> Iterator[str]:
        yield from super().begin(session)
        if self._grpo.note:
            yield self._grpo.note

    @property
    def _needs_reference(self) -> bool:
        return self._grpo.needs_reference

    @property
    def _updates(self) -> int:
        return self._grpo.options.num_iterations

    def _keep(self, session: Session, written: Sequence[Rollout]) -> list[Kept]:
        found = self._advantages_of(written, Progress(session.steps, 0))
        every = [(group.prompt.ids, each) for group in written for each in group.completions]
        masks = [
            self._grpo.mask(each.ids, self._ends.after(group.prompt.written).stop, each.mask)
            for group in written
            for each in group.completions
        ]
        kept = [
            _Scored(prompt, each.ids, float(advantage), mask, each.logps)
            for (prompt, each), advantage, mask in zip(every, found, masks, strict=True)
        ]
        self._set_references(session, kept)
        return kept

    def _advantages_of(self, written: Sequence[Rollout], progress: Progress) -> np.ndarray:
        """Of each completion."""
        every = [each for group in written for each in group.completions]
        if self._rewards is None and every[0].advantage is not None:
            self._outcome = {"completions/mean_length": float(np.mean([len(each.ids) for each in every]))}
            return np.array([each.advantage for each in every])
        rewards = self._rewarded(written, progress)
        size = self._group
        found = advantages(rewards, replace(self._advantages, num_generations=size))
        self._equal.add(found, size)
        unscored = float(np.isnan(rewards).all(axis=1).sum())
        self._outcome |= found.metrics | {_EQUAL: found.equal_groups / len(written), _UNSCORED: unscored}
        return found.values

    def _end_epoch(self) -> None:
        self._equal.end_epoch()

    def _add(self, session: Session, rollout: int, update: int) -> Added:
        keeps_old = update == 0 and self._grpo.needs_old
        lengths = [int(each.mask.sum()) for each in self._current]
        weights = self._grpo.weights(lengths, self._room)
        threshold, kept = None, lengths
        if self._grpo.needs_all_entropies:
            found = self._entropies(session)
            threshold = entropy_threshold(found, self._grpo.options.top_entropy_quantile)
            kept = [int((entropy >= threshold).sum()) for entropy in found]
        results = []
        for each, weight, entropy_weight in zip(self._current, weights, self._grpo.entropy_weights(kept), strict=True):
            sequence = session.sequence(each.ids, each.scored, temperature=self._temperature)
            logps, entropy = each.of(sequence.logprobs), each.of(sequence.entropy)
            result = self._grpo.sequence(
                logps,
                each.advantage,
                weight,
                mask=each.mask,
                old=each.old,
                reference=each.reference,
                sampled=each.sampled,
                entropies=entropy,
                entropy_threshold=threshold,
                entropy_weight=entropy_weight,
            )
            bonus = None if result.entropy_coefficients is None else each.spread(result.entropy_coefficients)
            sequence.backward(each.spread(result.coefficients), entropy=bonus)
            if keeps_old:
                each.old = logps.copy()
            results.append(result)
        loss, seen = sum(each.loss for each in results), sum(each.ids.size for each in self._current)
        return Added(loss, sum(lengths), seen, _metrics(results))

    def _entropies(self, session: Session) -> list[np.ndarray]:
        """Of the tokens that count."""
        return [
            each.of(session.scores(each.ids, each.scored, temperature=self._temperature).entropy)[each.mask]
            for each in self._current
        ]

    def saved(self) -> dict:
        return super().saved() | {"equal": [self._equal.groups, self._equal.equal]}

    def restore(self, saved: dict) -> None:
        super().restore(saved)
        equal = saved.get("equal", (0, 0))
        if not isinstance(equal, (list, tuple)) or any(type(count) is not int for count in equal):
            raise ValueError("groups are counted")
        self._equal = EqualGroups(*equal)


def _metrics(results: Sequence[SequenceResult]) -> dict[str, float]:
    """Means over the tokens of all sequences, by TRL's names, and how many ratios were bounded."""
    sums: dict[str, tuple[float, float]] = {}
    for name, (total, count) in (found for each in results for found in each.metrics.items()):
        before = sums.get(name, (0.0, 0.0))
        sums[name] = before[0] + total, before[1] + count
    means = {name: total / count if count else 0.0 for name, (total, count) in sums.items()}
    return means | {OVERFLOWS: float(sum(each.overflows for each in results))}
