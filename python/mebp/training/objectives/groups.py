# SPDX-License-Identifier: Apache-2.0
"""Rewards of sampled completions (GRPO and its relatives), with the memory of one sequence.

1. At the first of a rollout's updates, the session writes a group of completions for each prompt of the step, or takes
   them from --rollouts. Rewards make advantages of them, and the reference says what it thinks, where it counts.
2. Each update runs the sequences one after another: forward, coefficients, backward. Nothing of one is left when the
   next begins, so the peak does not know the group's size.
3. What later updates of a rollout need (its texts, advantages, and log-probabilities from before the first) travels in
   the state of the run.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mebp.data.dataset import rows_of_step, steps_per_epoch
from mebp.data.prompts import load_prompts
from mebp.data.rollouts import Rollout, load_rollouts
from mebp.errors import Error
from mebp.objectives.advantages import AdvantageOptions, EqualGroups, advantages
from mebp.objectives.entropy import entropy_threshold
from mebp.objectives.groups import GRPO, GRPOOptions, SequenceResult
from mebp.rewards import Sampled, load_rewards
from mebp.rewards.sampled import Progress
from mebp.rollouts import MOST_WRITTEN, RolloutOptions, Writer
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.objective_options import parts_of
from mebp.training.objectives.base import ANY_LENGTH, Measured, Objective, Step, vocabulary_of
from mebp.training.objectives.references import Reference
from mebp.training.options import TrainingOptions
from mebp.words import counted

_EQUAL = "frac_reward_zero_std"  # groups whose rewards are all the same
_METRICS = "reward", "reward_std", _EQUAL, "completions/mean_length", "entropy"
_OVERFLOWS = "ratio_overflows"  # tokens whose ratio was beyond e^20, and was taken as that


@dataclass
class _Scored:
    """A completion behind its prompt, with what all updates of its rollout have in common; arrays of [its tokens]."""

    prompt: np.ndarray  # int32 [tokens of the prompt]
    completion: np.ndarray  # int32
    advantage: float
    mask: np.ndarray  # bool
    sampled: np.ndarray | None = None  # float32, its writer's log-probabilities
    old: np.ndarray | None = None  # float32, the policy's before the first update
    reference: np.ndarray | None = None  # float32

    @property
    def ids(self) -> np.ndarray:
        """int32 [1, tokens of both]."""
        return np.concatenate([self.prompt, self.completion])[None]

    @property
    def scored(self) -> np.ndarray:
        """bool, likewise: the completion."""
        return (np.arange(self.ids.size) >= len(self.prompt))[None]

    def of(self, values: np.ndarray) -> np.ndarray:
        """The completion's of [1, tokens of both - 1]."""
        return values[0, -len(self.completion) :]

    def coefficients(self, values: np.ndarray) -> np.ndarray:
        """[1, tokens of both - 1] of the completion's."""
        whole = np.zeros((1, self.ids.size - 1))
        whole[0, -len(values) :] = values
        return whole

    def saved(self) -> dict:
        """As JSON has it."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}

    @classmethod
    def restored(cls, saved: Mapping[str, object]) -> "_Scored":
        types = {"prompt": np.int32, "completion": np.int32, "mask": bool}
        return cls(**{
            name: np.array(value, types.get(name, np.float32)) if isinstance(value, list) else value
            for name, value in saved.items()
        })  # fmt: skip


class Groups(Objective):
    curve = ("reward", "reward")
    writes, planned_as = True, "grpo"

    @classmethod
    def sequence_lengths(cls, options: TrainingOptions, tokenizer: Tokenizer) -> list[int]:
        """Of completions that are still to be written, as long as they may become."""
        room = parts_of(options.objective, options.objective_options)[RolloutOptions].most(2 * MOST_WRITTEN)
        prompts = [options.eval] if options.eval else []
        lengths = []
        if options.rollouts:
            rows = load_rollouts(options.data, tokenizer, ANY_LENGTH).rows
            lengths = [len(row.prompt.ids) + max(len(each.ids) for each in row.completions) for row in rows]
        else:
            prompts.append(options.data)
        read = [load_prompts(path, tokenizer, ANY_LENGTH).rows for path in prompts]
        return lengths + [len(prompt.ids) + room for rows in read for prompt in rows]

    def __init__(self, options: TrainingOptions, tokenizer: Tokenizer, length: int) -> None:
        super().__init__(options)
        parts = parts_of("grpo", options.objective_options)
        self._grpo = GRPO(parts[GRPOOptions])
        self._writing: RolloutOptions = parts[RolloutOptions]
        self._advantages = replace(parts[AdvantageOptions], num_generations=max(2, self._writing.group))
        if self._writing.group < 2:
            raise Error("--group is 1; a group needs at least 2 completions, for an advantage compares them")
        if self._grpo.options.entropy_coef:
            raise Error("--entropy-coef needs the entropy's derivative, which the head does not give; leave it out")
        self._tokenizer = tokenizer
        self._rewards = load_rewards(options.reward) if options.reward else None
        self._room = self._writing.most(length)
        read = {"tokenizer": tokenizer, "length": length, "vocabulary": vocabulary_of(options.bundle)}
        self._handed = load_rollouts(options.data, **read) if options.rollouts else None
        self._prompts = None if self._handed else load_prompts(options.data, **read)
        self._eval = load_prompts(options.eval, **read) if options.eval else None
        self._given = self._handed or self._prompts
        self.digest = self._given.digest
        self.notes = list(self._handed.notes) if self._handed else []
        self._check_rewards()
        self.metrics = tuple(self._names())
        self._equal = EqualGroups()
        self._current: list[_Scored] = []
        self._outcome: dict[str, float] = {}

    def _check_rewards(self) -> None:
        if self._rewards is None:
            has_own = self._handed and all(
                each.rewards is not None or each.advantage is not None
                for row in self._handed.rows
                for each in row.completions
            )
            if not has_own:
                raise Error("--objective grpo needs a reward; give --reward MODULE:FUNCTION, or a command")
            return
        rows = self._prompts.rows if self._prompts else [row.prompt for row in self._handed.rows]
        self._rewards.check_columns(list(rows[0].columns))

    def _names(self) -> Iterator[str]:
        yield from _METRICS
        if self._grpo.needs_reference:
            yield "kl"
        if self._updates > 1:
            yield "clip_ratio/region_mean"
        yield _OVERFLOWS
        yield from (f"rewards/{name}/mean" for name in (self._rewards.names if self._rewards else ()))

    def description(self) -> Mapping[str, object]:
        options = self.options
        own = {"--objective": "grpo", "--reference": options.reference, "--reward": options.reward}
        return own | {"--rollouts": options.rollouts} | self.own_options()

    def session_options(self) -> Mapping[str, object]:
        return {"accumulate": True}

    def bytes_beside(self, session: Session) -> int:
        """Of writing: what a session that trains has already is counted there."""
        own = [each for each in session.plan["generation"] if each["name"] not in ("trainables", "workspace")]
        return 0 if self._handed else sum(each["bytes"] for each in own)

    def begin(self, session: Session) -> Iterator[str]:
        yield from self.notes
        if self._grpo.note:
            yield self._grpo.note
        if self._handed is None and not session.generates:
            yield "the bundle was compiled without --generate-len, so each token computes the whole text again"
        self._writer = Writer(session, self._tokenizer, self._writing)
        if self._grpo.needs_reference:
            self._reference = Reference(self.options)
            if self._reference.note:
                yield self._reference.note
            self._reference.begin(session)

    def summary(self, session: Session) -> str:
        size = len(self._handed.rows[0].completions) if self._handed else self._writing.group
        rows = self._given.rows
        how = "handed in" if self._handed else f"of up to {self._room} tokens"
        return f"{counted(len(rows), 'prompt')}, {size} completions of each, {how}"

    @property
    def _updates(self) -> int:
        return self._grpo.options.num_iterations

    def steps_per_epoch(self, session: Session) -> int:
        return self._updates * steps_per_epoch(len(self._given.rows), self.options.accumulate)

    def step(self, session: Session, number: int) -> Step:
        begun = time.perf_counter()
        rollout, update = divmod(number, self._updates)
        if update == 0:
            self._begin_rollout(session, rollout)
        results = self._add(session, keeps_old=update == 0 and self._grpo.needs_old)
        result = session.apply()
        tokens = sum(int(each.mask.sum()) for each in self._current)
        metrics = self._outcome | _means(results) | {_OVERFLOWS: float(sum(each.overflows for each in results))}
        if update + 1 == self._updates:
            self._end_rollout(rollout)
        loss, seen = sum(each.loss for each in results), sum(each.ids.size for each in self._current)
        return Step(result.of(loss, tokens, time.perf_counter() - begun), seen, metrics)

    def _begin_rollout(self, session: Session, rollout: int) -> None:
        rows = rows_of_step(len(self._given.rows), rollout, self.options.accumulate, self.options.seed)
        if self._handed:
            written = [self._handed.rows[row] for row in rows]
        else:
            written = [
                self._writer.write(self._prompts.rows[row], self.options.seed, rollout, int(row)) for row in rows
            ]
        found = self._score(written, Progress(session.steps, 0))
        every = [(group.prompt.ids, each) for group in written for each in group.completions]
        self._current = [
            _Scored(
                prompt,
                each.ids,
                float(advantage),
                self._grpo.mask(each.ids, self._tokenizer.stop_tokens, each.mask),
                each.logps,
            )
            for (prompt, each), advantage in zip(every, found, strict=True)
        ]
        if self._grpo.needs_reference:  # before the first sequence: the adapter is set aside where gradients will be
            for each in self._current:
                logps = self._reference.logprobs(session, each.ids, each.scored, self._temperature)
                each.reference = each.of(logps).copy()

    def _score(self, written: Sequence[Rollout], progress: Progress) -> np.ndarray:
        """The advantage of each completion."""
        every = [each for group in written for each in group.completions]
        size = len(written[0].completions)
        lengths = [len(each.ids) for each in every]
        self._outcome = {"completions/mean_length": float(np.mean(lengths))}
        if self._rewards is None and every[0].advantage is not None:
            return np.array([each.advantage for each in every])
        if self._rewards is None:
            rewards = np.stack([each.rewards for each in every])
        else:
            sampled = [
                Sampled(group.prompt, each.text, each.ids, index)
                for group in written
                for index, each in enumerate(group.completions, start=1)
            ]
            scores = self._rewards.score(sampled, progress)
            rewards = scores.rewards
            self._outcome |= {name: value for name, value in scores.metrics.items() if name in self.metrics}
        found = advantages(rewards, replace(self._advantages, num_generations=size))
        self._equal.add(found, size)
        self._outcome |= found.metrics | {_EQUAL: found.equal_groups / len(written)}
        return found.values

    def _end_rollout(self, rollout: int) -> None:
        rollouts = steps_per_epoch(len(self._given.rows), self.options.accumulate)
        if (rollout + 1) % rollouts == 0:
            self._equal.end_epoch()

    @property
    def _temperature(self) -> float:
        return self._writing.temperature

    def _add(self, session: Session, keeps_old: bool) -> list[SequenceResult]:
        """Adds the gradient of each sequence."""
        lengths = [int(each.mask.sum()) for each in self._current]
        weights = self._grpo.weights(lengths, self._room)
        threshold = self._threshold(session) if self._grpo.needs_all_entropies else None
        results = []
        for each, weight in zip(self._current, weights, strict=True):
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
            )
            sequence.backward(each.coefficients(result.coefficients))
            if keeps_old:
                each.old = logps.copy()
            results.append(result)
        return results

    def _threshold(self, session: Session) -> float:
        found = []
        for each in self._current:
            _, entropy = session.scores(each.ids, each.scored, temperature=self._temperature)
            found.append(each.of(entropy)[each.mask])
        return entropy_threshold(found, self._grpo.options.top_entropy_quantile)

    def measure(self, session: Session, which: str, stop: Callable[[], bool]) -> Measured | None:
        """The mean reward of one completion of each prompt, drawn in the same way each time; its opposite is a loss."""
        if self._rewards is None:
            raise Error(f"--{which} needs a reward for what the model writes; give --reward")
        writer = Writer(session, self._tokenizer, replace(self._writing, group=1))
        sampled = []
        for index, prompt in enumerate(self._eval.rows):
            if stop():
                return None
            (completion,) = writer.write(prompt, self.options.seed, 2**32, index).completions
            sampled.append(Sampled(prompt, completion.text, completion.ids))
        rewards = self._rewards.score(sampled, Progress(session.steps, 0)).rewards
        reward = float(np.nanmean(np.nansum(rewards, axis=1)))
        return Measured(-reward, {"reward": reward})

    def saved(self) -> dict:
        return {
            "equal": [self._equal.groups, self._equal.equal],
            "outcome": self._outcome,
            "rollout": [each.saved() for each in self._current] if self._updates > 1 else [],
        }

    def restore(self, saved: dict) -> None:
        self._equal = EqualGroups(*saved.get("equal", (0, 0)))
        self._outcome = saved.get("outcome", {})
        self._current = [_Scored.restored(entry) for entry in saved.get("rollout", [])]


def _means(results: Sequence[SequenceResult]) -> dict[str, float]:
    """Over the tokens of all sequences, by TRL's names."""
    sums: dict[str, tuple[float, float]] = {}
    for name, (total, count) in (found for each in results for found in each.metrics.items()):
        before = sums.get(name, (0.0, 0.0))
        sums[name] = before[0] + total, before[1] + count
    return {name: total / count if count else 0.0 for name, (total, count) in sums.items()}
