# SPDX-License-Identifier: Apache-2.0
"""What objectives of completions that the model writes have in common (GRPO, PPO), with the memory of one sequence.

1. At the first of a rollout's updates, the session writes completions for each prompt of the step, or takes them from
   --rollouts, and rewards score them. What all updates have in common is made of that, and kept.
2. Each update runs sequences one after another: forward, coefficients, backward. Nothing of one is left when the next
   begins, so the peak does not know how many there are.
3. What later updates of a rollout need travels in the state of the run.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from mebp.data.dataset import rows_of_step, steps_per_epoch
from mebp.data.prompts import Prompt, join_prompts, load_prompts
from mebp.data.rollouts import Completion, Rollout, load_rollouts
from mebp.data.sources import Source, check_no_shares
from mebp.data.thoughts import thought_and_answer
from mebp.data.turn_ends import PromptEnds
from mebp.errors import Error
from mebp.rewards import TIMEOUT, Sampled, StoppedError, load_rewards
from mebp.rewards.sampled import Progress
from mebp.rollouts import MOST_WRITTEN, RolloutOptions, Writer
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.objective_options import parts_of
from mebp.training.objectives.base import ANY_LENGTH, Measured, Objective, Step, vocabulary_of
from mebp.training.objectives.continuation import Continuation
from mebp.training.objectives.references import Reference, check_unkept
from mebp.training.options import TrainingOptions
from mebp.words import counted

OVERFLOWS = "ratio_overflows"  # tokens whose ratio was beyond e^20, and was taken as that


@dataclass
class Kept(Continuation):
    """What all updates of a rollout have in common of a completion. Fields are numbers, None, or arrays of [tokens]:
    int32 of ids, bool of a mask, float32 of all others."""

    _TYPES: ClassVar[Mapping[str, type]] = {"prompt": np.int32, "completion": np.int32, "mask": bool}

    def saved(self) -> dict:
        """As JSON has it."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}

    @classmethod
    def restored(cls, saved: object) -> "Kept":
        """Raises ValueError or TypeError for what saved() never is: a state may be a stranger's."""
        if not isinstance(saved, dict):
            raise ValueError("a completion has names")
        kinds = {each.name: each.type for each in fields(cls)}
        restored = cls(**{name: cls._value(name, kinds.get(name), value) for name, value in saved.items()})
        if not (restored.prompt.size and restored.completion.size):
            raise ValueError("a prompt and its completion have tokens")
        for name, value in vars(restored).items():
            is_beside = isinstance(value, np.ndarray) and name not in ("prompt", "completion")
            if is_beside and len(value) != restored.tokens_of(name):
                raise ValueError(f"{name} is of other tokens")
        return restored

    def tokens_of(self, name: str) -> int:
        """How many an array is of, beside those of ids."""
        return self.length

    @classmethod
    def _value(cls, name: str, kind: object, value: object) -> object:
        if kind in (int, float):
            if type(value) is not int and not (kind is float and type(value) is float):
                raise ValueError(f"{name} is a number")
            return value
        if value is None and kind != np.ndarray:
            return None
        stored = cls._TYPES.get(name, np.float32)
        known = {np.int32: (int,), bool: (bool,), np.float32: (int, float)}[stored]
        if not isinstance(value, list) or not all(type(each) in known for each in value):
            raise ValueError(f"{name} is a list of numbers")
        return np.array(value, stored)


@dataclass(frozen=True)
class Added:
    """What the gradients of an update are of."""

    loss: float
    tokens: int  # that count
    seen: int  # prompts and those that do not count, too
    metrics: Mapping[str, float] = field(default_factory=dict)


def _sources(options: TrainingOptions) -> list[Source]:
    sources = check_no_shares(options.data, f"--objective {options.objective}")
    if options.rollouts and len(sources) > 1:
        raise Error("--rollouts is the data, and one file; leave --data out")
    return sources


class Rollouts(Objective):
    writing: type[RolloutOptions]
    kept: type[Kept]
    own_metrics: tuple[str, ...]

    def __init__(
        self, options: TrainingOptions, tokenizer: Tokenizer, length: int, writing: RolloutOptions, least: int
    ) -> None:
        """least: completions that a prompt has at least."""
        super().__init__(options)
        self._writing, self._tokenizer, self._room = writing, tokenizer, writing.most(length)
        self._ends = PromptEnds(tokenizer)
        timeout = TIMEOUT if options.reward_timeout is None else options.reward_timeout
        self._rewards = load_rewards(options.reward, timeout, lambda: self.stop()) if options.reward else None
        read = {"tokenizer": tokenizer, "length": length, "vocabulary": vocabulary_of(options.bundle)}
        sources = _sources(options)
        self._handed = load_rollouts(sources[0], **read, least=least) if options.rollouts else None
        self._prompts = None if self._handed else join_prompts([load_prompts(source, **read) for source in sources])
        self._eval = load_prompts(options.eval, **read) if options.eval else None
        self._given = self._handed or self._prompts
        self.digest = self._given.digest
        self.notes = [note for read in (self._given, self._eval) if read for note in read.notes]
        self._check_rewards()
        of_rewards = (f"rewards/{name}/mean" for name in (self._rewards.names if self._rewards else ()))
        self.metrics = (*self.own_metrics, "completions/mean_length", *of_rewards)
        self._current: list[Any] = []  # of `kept`
        self._outcome: dict[str, float] = {}  # metrics that all updates of a rollout have

    @classmethod
    def check_options(cls, options: TrainingOptions) -> None:
        check_unkept(options)

    @classmethod
    def sequence_lengths(cls, options: TrainingOptions, tokenizer: Tokenizer) -> list[int]:
        """Of completions that are still to be written, as long as they may become."""
        room = parts_of(options.objective, options.objective_options)[cls.writing].most(2 * MOST_WRITTEN)
        prompts = [options.eval] if options.eval else []
        lengths = []
        if options.rollouts:
            rows = load_rollouts(_sources(options)[0], tokenizer, ANY_LENGTH, least=1).rows
            lengths = [len(row.prompt.ids) + max(len(each.ids) for each in row.completions) for row in rows]
        else:
            prompts += _sources(options)
        read = [load_prompts(source, tokenizer, ANY_LENGTH).rows for source in prompts]
        return lengths + [len(prompt.ids) + room for rows in read for prompt in rows]

    def _check_rewards(self) -> None:
        if self._rewards is None:
            if not (self._handed and self._have_own(self._handed.rows)):
                raise Error(
                    f"--objective {self.options.objective} needs a reward; give --reward MODULE:FUNCTION, or a command"
                )
            return
        rows = self._prompts.rows if self._prompts else [row.prompt for row in self._handed.rows]
        self._rewards.check_columns(list(rows[0].columns))

    def _have_own(self, rows: Sequence[Rollout]) -> bool:
        """Whether completions that are handed in need no reward."""
        return all(each.rewards is not None for row in rows for each in row.completions)

    def description(self) -> Mapping[str, object]:
        options = self.options
        own = {"--objective": options.objective, "--reference": options.reference, "--reward": options.reward}
        return own | self.own_options()

    def session_options(self) -> Mapping[str, object]:
        return {"accumulate": True}

    def bytes_beside(self, session: Session) -> int:
        """Of writing: what a session that trains has already is counted there."""
        own = [each for each in session.plan["generation"] if each["name"] not in ("trainables", "workspace")]
        return 0 if self._handed else sum(each["bytes"] for each in own)

    def begin(self, session: Session) -> Iterator[str]:
        yield from self.notes
        if self._handed is None and not session.generates:
            yield "the bundle was compiled without --generate-len, so each token computes the whole text again"
        self._writer = Writer(session, self._tokenizer, self._writing, lambda: self.stop())
        if self._needs_reference:
            self._reference = Reference(self.options)
            if self._reference.note:
                yield self._reference.note
            self._reference.begin(session)

    @property
    @abstractmethod
    def _needs_reference(self) -> bool: ...

    @property
    @abstractmethod
    def _updates(self) -> int:
        """Of a rollout."""

    def summary(self, session: Session) -> str:
        size, rows = self._group, self._given.rows
        how = "handed in" if self._handed else f"of up to {self._room} tokens"
        return f"{counted(len(rows), 'prompt')}, {counted(size, 'completion')} of each, {how}"

    @property
    def _group(self) -> int:
        return len(self._handed.rows[0].completions) if self._handed else self._writing.group

    def steps_per_epoch(self, session: Session) -> int:
        return self._updates * self._rollouts_per_epoch

    @property
    def _rollouts_per_epoch(self) -> int:
        return steps_per_epoch(len(self._given.rows), self.options.accumulate)

    def steps_of_evaluation(self, session: Session) -> float:
        return self._updates * len(self._eval.rows) / self.options.accumulate / self._group

    def step(self, session: Session, number: int) -> Step | None:
        begun = time.perf_counter()
        rollout, update = divmod(number, self._updates)
        if update == 0:
            try:
                self._current = self._keep(session, self._write(rollout))
            except StoppedError:
                return None
        elif not self._current:
            raise Error("the state does not have the rollout that this update is of; start over without --resume")
        added = self._add(session, rollout, update)
        result = session.apply()
        if update + 1 == self._updates and (rollout + 1) % self._rollouts_per_epoch == 0:
            self._end_epoch()
        seconds = time.perf_counter() - begun
        return Step(result.of(added.loss, added.tokens, seconds), added.seen, self._outcome | added.metrics)

    def _write(self, rollout: int) -> list[Rollout]:
        seed = self.options.seed
        rows = rows_of_step(len(self._given.rows), rollout, self.options.accumulate, seed)
        if self._handed:
            return [self._handed.rows[row] for row in rows]
        return [self._writer.write(self._prompts.rows[row], seed, rollout, int(row)) for row in rows]

    @abstractmethod
    def _keep(self, session: Session, written: Sequence[Rollout]) -> list[Kept]:
        """What a rollout's updates are made with; sets the metrics that they have in common."""

    @abstractmethod
    def _add(self, session: Session, rollout: int, update: int) -> Added:
        """Adds the gradients of an update."""

    def _end_epoch(self) -> None:
        """After its last update."""

    def _rewarded(self, written: Sequence[Rollout], progress: Progress) -> np.ndarray:
        """float64 [completions, rewards], NaN where there is none; sets the metrics of these."""
        every = [each for group in written for each in group.completions]
        self._outcome = {"completions/mean_length": float(np.mean([len(each.ids) for each in every]))}
        if self._rewards is None:
            return np.stack([each.rewards for each in every])
        sampled = [
            self._sampled(group.prompt, each, index)
            for group in written
            for index, each in enumerate(group.completions, start=1)
        ]
        scores = self._rewards.score(sampled, progress)
        self._outcome |= {name: value for name, value in scores.metrics.items() if name in self.metrics}
        return scores.rewards

    def _sampled(self, prompt: Prompt, completion: Completion, number: int = 1) -> Sampled:
        apart = thought_and_answer(self._tokenizer, prompt.ids, completion.ids)
        return Sampled(prompt, completion.text, completion.ids, number, apart)

    def _set_references(self, session: Session, kept: Sequence[Any]) -> None:
        """Before the first sequence: the adapter is set aside where gradients will be."""
        for each in kept if self._needs_reference else ():
            each.reference = each.of(self._reference.logprobs(session, each.ids, each.scored, self._temperature)).copy()

    @property
    def _temperature(self) -> float:
        return self._writing.temperature

    def measure(self, session: Session, which: str, stop: Callable[[], bool]) -> Measured | None:
        """The mean reward of one completion of each prompt, drawn in the same way each time; its opposite is a loss."""
        if self._rewards is None:
            raise Error(f"--{which} needs a reward for what the model writes; give --reward")
        writer = Writer(session, self._tokenizer, replace(self._writing, group=1), stop)
        sampled = []
        try:
            for index, prompt in enumerate(self._eval.rows):
                (completion,) = writer.write(prompt, self.options.seed, 2**32, index).completions
                sampled.append(self._sampled(prompt, completion))
            rewards = self._rewards.score(sampled, Progress(session.steps, 0)).rewards
        except StoppedError:
            return None
        reward = float(np.nanmean(np.nansum(rewards, axis=1)))
        return Measured(-reward, {self.curve[1]: reward})

    def saved(self) -> dict:
        kept = [each.saved() for each in self._current] if self._updates > 1 else []
        return {"outcome": self._outcome, "rollout": kept}

    def restore(self, saved: dict) -> None:
        outcome, rollout = saved.get("outcome", {}), saved.get("rollout", [])
        if not isinstance(outcome, dict) or any(type(value) not in (int, float) for value in outcome.values()):
            raise ValueError("an outcome has names, and numbers")
        if not isinstance(rollout, list):
            raise ValueError("a rollout is a list")
        self._outcome = {name: value for name, value in outcome.items() if name in self.metrics}
        self._current = [self.kept.restored(entry) for entry in rollout]
