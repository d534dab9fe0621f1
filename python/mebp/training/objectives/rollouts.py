# SPDX-License-Identifier: Apache-2.0
"""What objectives of completions that the model writes have in common (GRPO, PPO), with the memory of one sequence.

1. At the first of a rollout's updates, the session writes completions for each prompt of the step, or takes them from
   --rollouts, and rewards score them. What all updates have in common is made of that, and kept.
   Of several processes each writes those of some prompts, and scores them; then all have all of them.
2. Each update runs sequences one after another: forward, coefficients, backward. Nothing of one is left when the next
   begins, so the peak does not know how many there are.
3. What later updates of a rollout need travels in the state of the run.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mebp.data.dataset import rows_of_step, steps_per_epoch
from mebp.data.prompts import Prompt, join_prompts, load_prompts
from mebp.data.rollouts import Completion, Rollout, load_rollouts
from mebp.data.sources import Source, check_no_shares
from mebp.data.thoughts import thought_and_answer
from mebp.data.turn_ends import PromptEnds
from mebp.distributed.sequence_steps import SequenceSteps
from mebp.errors import Error
from mebp.rewards import TIMEOUT, Sampled, StoppedError, load_rewards
from mebp.rewards.sampled import Progress
from mebp.rollouts import MOST_WRITTEN, RolloutOptions, Writer
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.objective_options import parts_of
from mebp.training.objectives.base import ANY_LENGTH, Measured, Objective, Step, vocabulary_of
from mebp.training.objectives.kept import Kept
from mebp.training.objectives.references import Reference, check_unkept
from mebp.training.options import TrainingOptions
from mebp.words import counted

OVERFLOWS = "ratio_overflows"  # tokens whose ratio was beyond e^20, and was taken as that


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
        self.metrics = (*self.metrics, *self.own_metrics, "completions/mean_length", *of_rewards)
        self._steps = SequenceSteps(self._shared)
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
        return {"accumulate": True} | self._shared_options()

    def bytes_beside(self, session: Session) -> int:
        """Of writing too: what a session that trains has already is counted there."""
        own = [each for each in session.plan["generation"] if each["name"] not in ("trainables", "workspace")]
        writing = 0 if self._handed else sum(each["bytes"] for each in own)
        return writing + super().bytes_beside(session)

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
        return steps_per_epoch(len(self._given.rows), self.options.batches_per_step)

    def steps_of_evaluation(self, session: Session) -> float:
        return self._updates * len(self._eval.rows) / self.options.batches_per_step / self._group

    def step(self, session: Session, number: int) -> Step | None:
        begun = time.perf_counter()
        rollout, update = divmod(number, self._updates)
        if update == 0:
            current = self._roll_out(session, rollout)
            if current is None:
                return None
            self._current = current
        elif not self._current:
            raise Error("the state does not have the rollout that this update is of; start over without --resume")
        added = self._add(session, rollout, update)
        result = self._steps.apply(session)
        if update + 1 == self._updates and (rollout + 1) % self._rollouts_per_epoch == 0:
            self._end_epoch()
        seconds = time.perf_counter() - begun
        metrics = self._outcome | added.metrics | self._told_imbalance()
        return Step(result.of(added.loss, added.tokens, seconds), added.seen, metrics)

    def _roll_out(self, session: Session, rollout: int) -> list[Any] | None:
        """What a rollout's updates are made with, of all processes, group after group; sets the metrics that they have
        in common. None where one of the processes is to end."""
        rows = rows_of_step(len(self._given.rows), rollout, self.options.batches_per_step, self.options.seed)
        parts = self._steps.parts([self._size(row) for row in rows])
        own = sorted(unit for part in parts for unit in part)
        written, rewards = [], np.empty(0)
        try:
            written = [self._write(rollout, int(rows[unit])) for unit in own]
            rewards = self._rewarded(written, Progress(session.steps, 0))
            is_stopped = False
        except StoppedError:
            is_stopped = True
        if self.ends(is_stopped):
            return None
        numbers = [unit * self._group + member for unit in own for member in range(self._group)]
        lengths = [len(each.ids) for group in written for each in group.completions]
        scored = zip(numbers, lengths, rewards, strict=True)
        found = np.stack(self._steps.of_all({number: np.array([length, *of]) for number, length, of in scored}))
        self._outcome = {"completions/mean_length": float(np.mean(found[:, 0]))}
        if self._rewards:
            of_rewards = self._rewards.metrics_of(found[:, 1:]).items()
            self._outcome |= {name: value for name, value in of_rewards if name in self.metrics}
        current = self._share(dict(zip(numbers, self._keep(session, written), strict=True)))
        given = (self._given.rows[row] for row in rows)
        self._compare(current, found[:, 1:], [each.prompt if self._handed else each for each in given])
        return current

    def _size(self, row: int) -> int:
        """Tokens of a prompt's sequences, as far as they are known."""
        if self._prompts:
            return self._group * (len(self._prompts.rows[row].ids) + self._room)
        group = self._handed.rows[row]
        return sum(len(group.prompt.ids) + len(each.ids) for each in group.completions)

    def _write(self, rollout: int, row: int) -> Rollout:
        if self._handed:
            return self._handed.rows[row]
        return self._writer.write(self._prompts.rows[row], self.options.seed, rollout, row)

    def _share(self, own: Mapping[int, Any]) -> list[Any]:
        """What all processes keep, where `own` is this one's, by the completions' numbers in the step."""
        if self._shared is None:
            return [own[number] for number in sorted(own)]
        sent = {number: each.packed() for number, each in own.items()}
        try:
            return [self.kept.unpacked(values) for values in self._steps.of_all(sent)]
        except (ValueError, TypeError):
            raise Error("another process of the group sends no completions; start all from the same mebp") from None

    @abstractmethod
    def _keep(self, session: Session, written: Sequence[Rollout]) -> list[Kept]:
        """What this process keeps of what it has written; it computes with the session."""

    @abstractmethod
    def _compare(self, kept: Sequence[Any], rewards: np.ndarray, prompts: Sequence[Prompt]) -> None:
        """Sets what follows from all completions of the rollout, group after group, and from their rewards, float64
        [completions, rewards]; and its metrics."""

    @abstractmethod
    def _add(self, session: Session, rollout: int, update: int) -> Added:
        """Adds the gradients of an update."""

    def _end_epoch(self) -> None:
        """After its last update."""

    def _rewarded(self, written: Sequence[Rollout], progress: Progress) -> np.ndarray:
        """float64 [completions, rewards] of what this process has written; NaN where there is none."""
        if not written:
            return np.empty((0, 0))
        if self._rewards is None:
            return np.stack([each.rewards for group in written for each in group.completions])
        sampled = [
            self._sampled(group.prompt, each, index)
            for group in written
            for index, each in enumerate(group.completions, start=1)
        ]
        return self._rewards.score(sampled, progress).rewards

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

    def begin_alike(self, session: Session, resumed_from: Path | None) -> int:
        steps = super().begin_alike(session, resumed_from)
        if self._shared:
            current = self._share(dict(enumerate(self._current)) if self._is_first else {})
            self.restore(self._shared.of_first({**self.saved(), "rollout": []}))
            self._current = current
        return steps

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
