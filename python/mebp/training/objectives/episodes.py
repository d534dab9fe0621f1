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
from mebp.data.rollouts import Completion, Rollout
from mebp.errors import Error
from mebp.objectives.ppo import PPO, Episode, PPOOptions
from mebp.rewards.sampled import Progress
from mebp.rollouts import EpisodeOptions
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.objective_options import parts_of
from mebp.training.objectives.base import check_compiled
from mebp.training.objectives.rollouts import OVERFLOWS, Added, Kept, Rollouts
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
        fewest = self._group * (rows % options.accumulate or min(rows, options.accumulate))
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
        every = [(group.prompt.ids, each) for group in written for each in group.completions]
        rewards = self._rewarded(written, Progress(session.steps, 0))
        missing = np.flatnonzero(np.isnan(rewards).all(axis=1))
        if len(missing):
            raise Error(f"{every[missing[0]][1].where}: has no reward, and ppo needs one of each completion")
        kept = [self._episode(prompt, each) for prompt, each in every]
        self._set_references(session, kept)
        for each in kept:
            found = session.scores(each.ids, each.scored, temperature=self._temperature)
            each.old, each.values = each.of(found.logprobs)[: each.tokens].copy(), each.of(found.values).copy()
        if self._has_own:
            with session.by_value_adapter():
                for each in kept:
                    each.values = each.of(session.scores(each.ids, each.scored).values).copy()
        targets = self._ppo.targets([
            Episode(each.old, each.reference[: each.tokens], each.values, float(score), is_ended)
            for each, score, is_ended in zip(kept, np.nansum(rewards, axis=1), self._ended(written), strict=True)
        ])  # fmt: skip
        for each, target in zip(kept, targets, strict=True):
            each.advantages, each.returns = np.float32(target.advantages), np.float32(target.returns)
        self._outcome |= {name: float(np.mean([each.metrics[name] for each in targets])) for name in _OF_EPISODES}
        self._outcome[_SPREAD] = float(np.nansum(rewards, axis=1).std())
        return kept

    def _episode(self, prompt: np.ndarray, each: Completion) -> _Episode:
        tokens, longest = len(each.ids), min(self._room, self._length - len(prompt))
        return _Episode(prompt, np.append(each.ids, each.ids[-1:]) if tokens < longest else each.ids, tokens)

    def _ended(self, written: Sequence[Rollout]) -> list[bool]:
        """Of each completion, whether the model has ended it."""
        stops = ((self._ends.after(group.prompt.written).stop, group.completions) for group in written)
        return [int(each.ids[-1]) in stop for stop, completions in stops for each in completions]

    def _add(self, session: Session, rollout: int, update: int) -> Added:
        batch = self._batch(rollout, update)
        found = _Update(self._ppo, batch)
        metrics = {_VALUE_NORM: self._train_value(session, found)} if self._has_own else {}
        for each in batch:
            sequence = session.sequence(each.ids, each.scored, temperature=self._temperature)
            values = None if self._has_own else found.add_value(sequence, each)
            sequence.backward(found.add_policy(sequence, each), values=values)
        seen = sum(each.ids.size for each in batch)
        return Added(found.policy_loss + found.value_loss, found.tokens, seen, found.metrics() | metrics)

    def _train_value(self, session: Session, found: "_Update") -> float:
        """The value's adapter alone, to its end; the gradient's norm."""
        with session.by_value_adapter():
            for each in found.batch:
                sequence = session.sequence(each.ids, each.scored)
                values = found.add_value(sequence, each)
                sequence.backward(np.zeros_like(values), values=values)
            return session.apply().grad_norm

    def _batch(self, rollout: int, update: int) -> list[_Episode]:
        """An epoch's order depends on seed, rollout and epoch alone."""
        epoch, batch = divmod(update, self._ppo.options.num_mini_batches)
        order = np.random.default_rng([self.options.seed, rollout, epoch]).permutation(len(self._current))
        return [self._current[row] for row in np.array_split(order, self._ppo.options.num_mini_batches)[batch]]


class _Update:
    """Adds up losses and metrics of an update's episodes."""

    def __init__(self, ppo: PPO, batch: Sequence[_Episode]) -> None:
        self._ppo, self.batch = ppo, batch
        self.tokens, self._positions = sum(each.tokens for each in batch), sum(each.length for each in batch)
        self.policy_loss = self.value_loss = 0.0
        self._overflows = 0
        self._sums: dict[str, np.ndarray] = {}

    def add_policy(self, sequence: sequences.Sequence, each: _Episode) -> np.ndarray:
        """The coefficients of its log-probabilities, [1, tokens of prompt and completion - 1]."""
        found = self._ppo.policy(each.of(sequence.logprobs)[: each.tokens], each.old, each.advantages, self.tokens)
        entropy = each.of(sequence.entropy)[: each.tokens].sum()
        self.policy_loss += found.loss
        self._overflows += found.overflows
        self._count(found.metrics | {"policy/entropy_avg": (entropy, each.tokens)})
        return each.spread(found.coefficients)

    def add_value(self, sequence: sequences.Sequence, each: _Episode) -> np.ndarray:
        """Those of its values, likewise."""
        found = self._ppo.value(each.of(sequence.values), each.values, each.returns, self._positions)
        self.value_loss += found.loss
        self._count(found.metrics)
        return each.spread(found.coefficients)

    def _count(self, metrics: Mapping[str, tuple[float, float]]) -> None:
        for name, of in metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + np.array(of)

    def metrics(self) -> dict[str, float]:
        weight = self._ppo.options.vf_coef
        unscaled = float(self.value_loss / weight) if weight else 0.0  # TRL logs the value's loss without vf_coef
        means = {name: float(total / by) for name, (total, by) in self._sums.items()}
        losses = {"loss/policy_avg": float(self.policy_loss), "loss/value_avg": unscaled}
        return means | losses | {OVERFLOWS: float(self._overflows)}


def _check_handed(each: Completion) -> None:
    """PPO makes advantages itself, and its episodes have no tokens of others."""
    wrong: Mapping[str, bool] = {"an advantage": each.advantage is not None, "a mask": not each.mask.all()}
    for what, is_there in wrong.items():
        if is_there:
            raise Error(f"{each.where}: has {what}, which --objective ppo does not take; leave it out, or choose grpo")
