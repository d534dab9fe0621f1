# SPDX-License-Identifier: Apache-2.0
"""Rewards of completions whose tokens are compared with what a value head expects (PPO, as TRL 1.12 has it).

The value shares the policy's adapter: one backward of a sequence takes the coefficients of its log-probabilities and
those of its values. Or it has its own, by which all sequences of an update run before they run by the policy's. After
the last token one more value counts, for which a token follows it that nothing else sees.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from mebp import sequences
from mebp.data.prompts import Prompt
from mebp.data.rollouts import Completion, Rollout
from mebp.distributed.sequence_steps import SequenceSteps
from mebp.errors import Error
from mebp.objectives.ppo import PPO, Episode, PPOOptions
from mebp.rewards.sampled import Progress
from mebp.rollouts import EpisodeOptions
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.objective_options import parts_of
from mebp.training.objectives.base import check_compiled
from mebp.training.objectives.kept import Kept
from mebp.training.objectives.rollouts import OVERFLOWS, Added, Rollouts
from mebp.training.options import TrainingOptions

_OF_EPISODES = (
    "objective/kl",
    "objective/entropy",
    "objective/non_score_reward",
    "objective/rlhf_reward",
    "objective/scores",
)
_OF_UPDATES = (
    "policy/approxkl_avg",
    "policy/clipfrac_avg",
    "policy/entropy_avg",
    "loss/policy_avg",
    "loss/value_avg",
    "val/clipfrac_avg",
    "val/ratio",
    OVERFLOWS,
)


_SPREAD = "objective/scores_std"  # over a rollout's completions; TRL has none
_VALUE_NORM = "val/grad_norm"  # of the value's own adapter; grad_norm is then the policy's


@dataclass
class _Episode(Kept):
    tokens: int  # of the completion; one more follows where its value counts
    old: np.ndarray | None = None  # [tokens], the policy's log-probabilities before the first update
    values: np.ndarray | None = None  # [length], from then, too
    reference: np.ndarray | None = None  # [length]
    advantages: np.ndarray | None = None  # [tokens]
    returns: np.ndarray | None = None  # [length]

    def tokens_of(self, name: str) -> int:
        return self.tokens if name in ("old", "advantages") else self.length


class Episodes(Rollouts):
    kept, writing, curve = _Episode, EpisodeOptions, ("score", "objective/scores")
    own_metrics = (*_OF_EPISODES, _SPREAD, *_OF_UPDATES)
    watched = MappingProxyType({"reward": "objective/scores", "spread": _SPREAD})

    def __init__(self, options: TrainingOptions, tokenizer: Tokenizer, length: int) -> None:
        parts = parts_of(options.objective, options.objective_options)
        self._ppo = PPO(parts[PPOOptions])
        check_compiled(options.bundle, "value_head", "--objective ppo needs a value head")
        self._has_own = self._ppo.options.value_model == "own"
        if self._has_own:
            self.own_metrics = (*self.own_metrics, _VALUE_NORM)
        super().__init__(options, tokenizer, length, parts[EpisodeOptions], least=1)
        self._length = length
        for row in self._handed.rows if self._handed else ():
            for each in row.completions:
                _check_handed(each)
        rows = len(self._given.rows)
        together = options.batches_per_step
        fewest = self._group * (rows % together or min(rows, together))
        if self._ppo.options.num_mini_batches > fewest:
            raise Error(
                f"--num-mini-batches is {self._ppo.options.num_mini_batches}, and a rollout may have "
                f"{fewest} completions; give at most as many, or a larger --accumulate"
            )

    def session_options(self) -> Mapping[str, object]:
        return {**super().session_options(), "value_adapter": self._has_own}

    def begin(self, session: Session) -> Iterator[str]:
        yield from super().begin(session)
        if self._has_own:
            yield "the value has an adapter of its own, so each sequence of an update runs twice"

    @property
    def _needs_reference(self) -> bool:
        return True

    @property
    def _updates(self) -> int:
        return self._ppo.options.num_ppo_epochs * self._ppo.options.num_mini_batches

    def _keep(self, session: Session, written: Sequence[Rollout]) -> list[Kept]:
        kept = [self._episode(group.prompt.ids, each) for group in written for each in group.completions]
        self._set_references(session, kept)
        for each in kept:
            found = session.scores(each.ids, each.scored, temperature=self._temperature)
            each.old, each.values = each.of(found.logprobs)[: each.tokens].copy(), each.of(found.values).copy()
        if self._has_own:
            with session.by_value_adapter():
                for each in kept:
                    each.values = each.of(session.scores(each.ids, each.scored).values).copy()
        return kept

    def _rewarded(self, written: Sequence[Rollout], progress: Progress) -> np.ndarray:
        rewards = super()._rewarded(written, progress)
        every = [each for group in written for each in group.completions]
        for each, of in zip(every, rewards, strict=True):
            if np.isnan(of).all():
                raise Error(f"{each.where}: has no reward, and ppo needs one of each completion")
        return rewards

    def _compare(self, kept: Sequence[_Episode], rewards: np.ndarray, prompts: Sequence[Prompt]) -> None:
        targets = self._ppo.targets([
            Episode(each.old, each.reference[: each.tokens], each.values, float(score), is_ended)
            for each, score, is_ended in zip(kept, np.nansum(rewards, axis=1), self._ended(kept, prompts), strict=True)
        ])  # fmt: skip
        for each, target in zip(kept, targets, strict=True):
            each.advantages, each.returns = np.float32(target.advantages), np.float32(target.returns)
        self._outcome |= {name: float(np.mean([each.metrics[name] for each in targets])) for name in _OF_EPISODES}
        self._outcome[_SPREAD] = float(np.nansum(rewards, axis=1).std())

    def _episode(self, prompt: np.ndarray, each: Completion) -> _Episode:
        tokens, longest = len(each.ids), min(self._room, self._length - len(prompt))
        return _Episode(prompt, np.append(each.ids, each.ids[-1:]) if tokens < longest else each.ids, tokens)

    def _ended(self, kept: Sequence[_Episode], prompts: Sequence[Prompt]) -> list[bool]:
        """Of each completion, of which each prompt has as many, whether the model has ended it."""
        stops = [self._ends.after(prompt.written).stop for prompt in prompts]
        of_each = len(kept) // len(prompts)
        return [int(each.completion[each.tokens - 1]) in stops[number // of_each] for number, each in enumerate(kept)]

    def _add(self, session: Session, rollout: int, update: int) -> Added:
        batch = self._batch(rollout, update)
        sizes, together = [each.ids.size for each in batch], self.options.batches_per_step
        parts = self._steps.parts(sizes, -(-len(batch) // together))  # a batch may have fewer than there are prompts
        found = _Update(self._ppo, batch)
        metrics = {_VALUE_NORM: self._train_value(session, found, parts)} if self._has_own else {}
        for number in (number for part in self._steps.batches(session, parts) for number in part):
            each = batch[number]
            sequence = session.sequence(each.ids, each.scored, temperature=self._temperature)
            values = None if self._has_own else found.add_value(sequence, number)
            sequence.backward(found.add_policy(sequence, number), values=values)
        loss, of_update = found.of_all(self._steps)
        return Added(loss, found.tokens, sum(sizes), of_update | metrics)

    def _train_value(self, session: Session, found: "_Update", parts: list[list[int]]) -> float:
        """The value's adapter alone, to its end; the gradient's norm."""
        with session.by_value_adapter():
            for number in (number for part in self._steps.batches(session, parts) for number in part):
                each = found.batch[number]
                sequence = session.sequence(each.ids, each.scored)
                values = found.add_value(sequence, number)
                sequence.backward(np.zeros_like(values), values=values)
            return self._steps.apply(session).grad_norm

    def _batch(self, rollout: int, update: int) -> list[_Episode]:
        """An epoch's order depends on seed, rollout and epoch alone."""
        epoch, batch = divmod(update, self._ppo.options.num_mini_batches)
        order = np.random.default_rng([self.options.seed, rollout, epoch]).permutation(len(self._current))
        return [self._current[row] for row in np.array_split(order, self._ppo.options.num_mini_batches)[batch]]


class _Update:
    """Adds up losses and metrics of an update's episodes."""

    # What is told of an episode, by name a sum and what that is divided by: the policy's and the value's losses first.
    _TOLD = ("policy", "value", OVERFLOWS, "policy/approxkl_avg", "policy/clipfrac_avg", "policy/entropy_avg",
             "val/clipfrac_avg", "val/ratio")  # fmt: skip

    def __init__(self, ppo: PPO, batch: Sequence[_Episode]) -> None:
        self._ppo, self.batch = ppo, batch
        self.tokens, self._positions = sum(each.tokens for each in batch), sum(each.length for each in batch)
        self._told: dict[int, dict[str, tuple[float, float]]] = {}  # by the episode's number in the batch

    def add_policy(self, sequence: sequences.Sequence, number: int) -> np.ndarray:
        """The coefficients of its log-probabilities, [1, tokens of prompt and completion - 1]."""
        each = self.batch[number]
        found = self._ppo.policy(each.of(sequence.logprobs)[: each.tokens], each.old, each.advantages, self.tokens)
        entropy = each.of(sequence.entropy)[: each.tokens].sum()
        losses = {"policy": (found.loss, 1), OVERFLOWS: (found.overflows, 1)}
        self._tell(number, losses | found.metrics | {"policy/entropy_avg": (float(entropy), each.tokens)})
        return each.spread(found.coefficients)

    def add_value(self, sequence: sequences.Sequence, number: int) -> np.ndarray:
        """Those of its values, likewise."""
        each = self.batch[number]
        found = self._ppo.value(each.of(sequence.values), each.values, each.returns, self._positions)
        self._tell(number, {"value": (found.loss, 1), **found.metrics})
        return each.spread(found.coefficients)

    def _tell(self, number: int, told: Mapping[str, tuple[float, float]]) -> None:
        self._told[number] = self._told.get(number, {}) | told

    def of_all(self, steps: SequenceSteps) -> tuple[float, dict[str, float]]:
        """The update's loss and metrics, of the episodes of all processes."""
        own = {number: np.array([told[name] for name in self._TOLD]).ravel() for number, told in self._told.items()}
        sums = dict(zip(self._TOLD, np.sum(steps.of_all(own), axis=0).reshape(-1, 2), strict=True))
        policy, value, overflows = (float(sums.pop(name)[0]) for name in self._TOLD[:3])
        weight = self._ppo.options.vf_coef
        unscaled = value / weight if weight else 0.0  # TRL logs the value's loss without vf_coef
        means = {name: float(total / by) for name, (total, by) in sums.items()}
        losses = {"loss/policy_avg": policy, "loss/value_avg": unscaled, OVERFLOWS: overflows}
        return policy + value, means | losses


def _check_handed(each: Completion) -> None:
    """PPO makes advantages itself, and its episodes have no tokens of others."""
    wrong: Mapping[str, bool] = {"an advantage": each.advantage is not None, "a mask": not each.mask.all()}
    for what, is_there in wrong.items():
        if is_there:
            raise Error(f"{each.where}: has {what}, which --objective ppo does not take; leave it out, or choose grpo")
