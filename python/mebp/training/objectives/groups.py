# SPDX-License-Identifier: Apache-2.0
"""Rewards of groups of completions, which are compared with one another (GRPO and its relatives)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from mebp.data.prompts import Prompt
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
from mebp.training.objectives.kept import Kept
from mebp.training.objectives.rollouts import OVERFLOWS, Added, Rollouts
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
        kept = []
        for group in written:
            stop = self._ends.after(group.prompt.written).stop
            for each in group.completions:
                mask = self._grpo.mask(each.ids, stop, each.mask)
                kept.append(_Scored(group.prompt.ids, each.ids, 0.0, mask, each.logps))
        self._set_references(session, kept)
        return kept

    @property
    def _has_advantages(self) -> bool:
        """Whether those that are handed in are taken, and no rewards."""
        rows = self._handed.rows if self._handed and self._rewards is None else ()
        every = [each.advantage for row in rows for each in row.completions]
        return bool(every) and None not in every

    def _rewarded(self, written: Sequence[Rollout], progress: Progress) -> np.ndarray:
        if written and self._has_advantages:
            return np.array([[each.advantage] for group in written for each in group.completions])
        return super()._rewarded(written, progress)

    def _compare(self, kept: Sequence[_Scored], rewards: np.ndarray, prompts: Sequence[Prompt]) -> None:
        found = rewards[:, 0] if self._has_advantages else self._advantages_of(rewards)
        for each, advantage in zip(kept, found, strict=True):
            each.advantage = float(advantage)

    def _advantages_of(self, rewards: np.ndarray) -> np.ndarray:
        """Of each completion."""
        size = self._group
        found = advantages(rewards, replace(self._advantages, num_generations=size))
        self._equal.add(found, size)
        unscored = float(np.isnan(rewards).all(axis=1).sum())
        self._outcome |= found.metrics | {_EQUAL: found.equal_groups * size / len(rewards), _UNSCORED: unscored}
        return found.values

    def _end_epoch(self) -> None:
        self._equal.end_epoch()

    def _add(self, session: Session, rollout: int, update: int) -> Added:
        keeps_old = update == 0 and self._grpo.needs_old
        lengths = [int(each.mask.sum()) for each in self._current]
        weights = self._grpo.weights(lengths, self._room)
        parts = self._own_parts()
        threshold, kept = None, lengths
        if self._grpo.needs_all_entropies:
            own = self._entropies(session, [number for part in parts for number in part])
            found = [np.float32(each) for each in self._steps.of_all(own)]
            threshold = entropy_threshold(found, self._grpo.options.top_entropy_quantile)
            kept = [int((entropy >= threshold).sum()) for entropy in found]
        entropy_weights = self._grpo.entropy_weights(kept)
        results: dict[int, SequenceResult] = {}
        for number in (number for part in self._steps.batches(session, parts) for number in part):
            each = self._current[number]
            sequence = session.sequence(each.ids, each.scored, temperature=self._temperature)
            logps, entropy = each.of(sequence.logprobs), each.of(sequence.entropy)
            result = self._grpo.sequence(
                logps,
                each.advantage,
                weights[number],
                mask=each.mask,
                old=each.old,
                reference=each.reference,
                sampled=each.sampled,
                entropies=entropy,
                entropy_threshold=threshold,
                entropy_weight=entropy_weights[number],
            )
            bonus = None if result.entropy_coefficients is None else each.spread(result.entropy_coefficients)
            sequence.backward(each.spread(result.coefficients), entropy=bonus)
            if keeps_old:
                each.old = logps.copy()
            results[number] = result
        if keeps_old:
            self._current = self._share({number: self._current[number] for number in results})
        found = self._steps.of_all({number: _told(result, self.own_metrics) for number, result in results.items()})
        seen = sum(each.ids.size for each in self._current)
        return Added(float(sum(each[0] for each in found)), sum(lengths), seen, _metrics(found, self.own_metrics))

    def _own_parts(self) -> list[list[int]]:
        """Numbers of completions in each of this process's micro-batches, which are of a prompt each."""
        size = self._group
        groups = [range(first, first + size) for first in range(0, len(self._current), size)]
        parts = self._steps.parts([sum(self._current[number].ids.size for number in group) for group in groups])
        return [[number for unit in part for number in groups[unit]] for part in parts]

    def _entropies(self, session: Session, numbers: Sequence[int]) -> dict[int, np.ndarray]:
        """Of the tokens that count, of completions by their numbers."""
        found = {}
        for number in numbers:
            each = self._current[number]
            scores = session.scores(each.ids, each.scored, temperature=self._temperature)
            found[number] = each.of(scores.entropy)[each.mask]
        return found

    def saved(self) -> dict:
        return super().saved() | {"equal": [self._equal.groups, self._equal.equal]}

    def restore(self, saved: dict) -> None:
        super().restore(saved)
        equal = saved.get("equal", (0, 0))
        if not isinstance(equal, (list, tuple)) or any(type(count) is not int for count in equal):
            raise ValueError("groups are counted")
        self._equal = EqualGroups(*equal)


def _told(result: SequenceResult, names: Sequence[str]) -> np.ndarray:
    """What of a completion's result is added up over all: its loss, its overflows, and of each metric a sum and what
    that is divided by, NaN where there is none."""
    metrics = [result.metrics.get(name, (np.nan, np.nan)) for name in names]
    return np.array([result.loss, result.overflows, *(number for each in metrics for number in each)])


def _metrics(told: Sequence[np.ndarray], names: Sequence[str]) -> dict[str, float]:
    """Means over the tokens of all completions, by TRL's names, and how many ratios were bounded."""
    sums = np.sum(told, axis=0)
    found = {name: (total, count) for name, total, count in zip(names, sums[2::2], sums[3::2], strict=True)}
    means = {name: float(total / count) if count else 0.0 for name, (total, count) in found.items() if count >= 0}
    return means | {OVERFLOWS: float(sums[1])}
