# SPDX-License-Identifier: Apache-2.0
"""What the loop asks of an objective."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from mebp.compile_options import flag
from mebp.data.sources import Source
from mebp.distributed.global_batch import GlobalBatch
from mebp.distributed.group import joined
from mebp.errors import Error
from mebp.inspect import dropout_of, inspect
from mebp.session import Session
from mebp.session_options import default_optimizer, takes_losses
from mebp.step_result import StepResult
from mebp.tokenizer import Tokenizer
from mebp.training.options import TrainingOptions


@dataclass(frozen=True)
class Step:
    """What a step did."""

    result: StepResult
    seen: int  # tokens that went forward and back, those included that do not count
    metrics: Mapping[str, float] = field(default_factory=dict)  # some or all of Objective.metrics


@dataclass(frozen=True)
class Measured:
    """What an evaluation found."""

    loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)


FORWARD = 1 / 3  # of a step's time: beside it are what is recomputed, and the backward pass
ANY_LENGTH = 1 << 40  # tokens, for reading data that no bundle holds to its length


def check_compiled(bundle: Path, option: str, why: str) -> None:
    """Raises mebp.Error, which begins with `why`, where the bundle was compiled without this option of mebpc's."""
    if not inspect(bundle)["manifest"].get("options", {}).get(option):
        raise Error(f"{why}, which {bundle} was compiled without; compile it with {flag(option)}")


def vocabulary_of(bundle: Path) -> int:
    """Ids are below this number."""
    return inspect(bundle)["model"]["vocabulary"]


class Objective(ABC):
    """Of a run; it is made before the session, which it says what to have room for.

    A step is of `--accumulate` times what the objective says that it takes: batches of the bundle's rows, pairs, or
    prompts. Where its formula couples what TRL has in a device's batch, that is all of the step.
    """

    metrics: Sequence[str] = ()  # what is logged of a step beside its loss, by name
    has_perplexity = False  # whether exp(loss) says anything
    watched: Mapping[str, str] = MappingProxyType({})  # metrics that a terminal and the picture show, by their words
    curve: tuple[str, ...] = ("loss",)  # what a picture draws: its label and, if it is not the loss, its metric
    digest: str  # of what is trained on
    held_out = ""  # what of the data is measured on instead, in a few words
    notes: Sequence[str] = ()  # on the data, a line each
    # What a bundle is compiled for that is made for it, as mebp.building.Trained has them.
    cuts_samples, pairs_up_to = False, 0

    @property
    def _is_first(self) -> bool:
        """Of the processes that share the run."""
        return self._shared is None or self._shared.is_first

    def stop(self) -> bool:
        """Whether the run is to end; the run says so."""
        return False

    def begin_alike(self, session: Session, resumed_from: Path | None) -> int:
        """The step that the run begins after, in all processes that share it, once the first has loaded its state from
        that folder. Raises mebp.Error where another has another bundle, other data or options."""
        if self._shared:
            self._shared.check_alike(session, self.options, self.digest)
            self._shared.begin_alike(session, resumed_from)
        return session.steps

    def state_parts(self, session: Session, saves: bool) -> AbstractContextManager[list[Path]]:
        """While the first process saves a state, if it `saves` one: folders with those parts of it that others have."""
        return self._shared.state_parts(session, saves) if self._shared else nullcontext([])

    def leave(self) -> None:
        """At the end of a run that has not failed, after which others need nothing of this process."""
        if self._shared:
            self._shared.leave()

    @property
    def is_in_parts(self) -> bool:
        """Whether a state takes all processes to be saved."""
        return self._shared is not None and self._shared.is_sharded

    def ends(self, asked: bool) -> bool:
        """Whether the run ends before the next step, where this process is `asked` to."""
        return self._shared.ends(asked) if self._shared else asked

    def stopped_by(self, own: int | None) -> int | None:
        """The signal that has stopped the run, once all is saved: `own`, or that of the processes that share it."""
        return self._shared.stopped_by(own, self.options.state) if self._shared else own

    @classmethod  # noqa: B027, most ask for no more than their options' classes do
    def check_options(cls, options: TrainingOptions) -> None:
        """Raises mebp.Error where it cannot train with these, before anything is read or compiled. What a row of
        format/objectives.h says, TrainingOptions has checked."""

    @classmethod
    def sequence_lengths(cls, options: TrainingOptions, tokenizer: Tokenizer) -> list[int] | None:
        """Tokens of all sequences that a step may run, before there is a bundle; None of packed text. A bundle that is
        made for them holds the longest. Raises mebp.Error where they cannot be read."""
        return None

    @classmethod  # noqa: B027, some read it only when the run begins
    def check_data(cls, path: Source) -> None:
        """Raises mebp.Error where a file of data cannot be read."""

    @classmethod
    def classes_of(cls, options: TrainingOptions, config: Mapping[str, object]) -> Sequence[str]:
        """What a model with this config.json is to tell apart; empty of one that predicts the next token."""
        return ()

    @classmethod
    def packs(cls, options: TrainingOptions) -> bool | None:
        """Whether a bundle that is made for the run lets samples share rows; None: where that is worth it."""
        return False

    def __init__(self, options: TrainingOptions) -> None:
        self.options = options
        self._shared = None
        if options.global_batch:
            sharing = options.shard, options.reduce, options.bundle
            self._shared = GlobalBatch(options.global_batch, joined(), *sharing)
        self.metrics = (*self.metrics, *(("imbalance",) if joined() else ()))

    def description(self) -> Mapping[str, object]:
        """Options of its own that a resumed run must have in common with the one before, by the names of the command
        line."""
        return {}

    def own_options(self) -> dict[str, object]:
        """Those that no other objective has, likewise."""
        return {flag(name): value for name, value in self.options.objective_options.items()}

    def session_options(self) -> Mapping[str, object]:
        """What of mebp.Session's options it needs."""
        return {"accumulate": self.options.accumulate > 1} | self._shared_options()

    def _shared_options(self) -> dict[str, object]:
        if self._shared is None:
            return {}
        optimizer = self.options.optimizer or inspect(self.options.bundle)["plan"]["optimizer"]
        return self._shared.session_options(takes_losses(optimizer or default_optimizer()))

    def _told_imbalance(self) -> dict[str, float]:
        return {"imbalance": self._shared.imbalance} if joined() else {}

    def saves_memory(self) -> bool:
        """Whether session_options asks for less from now on, at the price of time: of a run that has too little."""
        return False

    def bytes_beside(self, session: Session) -> int:
        """The most that it has in memory beside what the session plans."""
        return self._shared.bytes_beside(session) if self._shared else 0

    @abstractmethod
    def begin(self, session: Session) -> Iterator[str]:
        """Takes the session of the run, before its first step; yields what is worth saying."""

    @abstractmethod
    def summary(self, session: Session) -> str:
        """The data, in half a line."""

    @abstractmethod
    def steps_per_epoch(self, session: Session) -> int: ...

    @abstractmethod
    def step(self, session: Session, number: int) -> Step | None:
        """The step after `number` others; None where `stop()` became true before anything was changed. Raises
        mebp.Error where it fails."""

    drops = False  # whether its steps have the bundle's dropout, or compare probabilities

    def notes_on_dropout(self) -> Sequence[str]:
        """What to say where the bundle has dropout, and steps have none."""
        name, share = self.options.objective, dropout_of(inspect(self.options.bundle))
        if self.drops or not share:
            return ()
        return (f"--objective {name} compares probabilities, without the bundle's LoRA dropout of {share:g}",)

    step_is_planned = False  # whether the plan predicts a step's time

    def work(self, session: Session, number: int) -> float:
        """How much a step has to do, beside mean_work."""
        return 1.0

    def mean_work(self, session: Session) -> float:
        """Of an epoch's steps; of one that the plan is of, in tokens."""
        return 1.0

    def steps_of_evaluation(self, session: Session) -> float:
        """How many mean steps an evaluation takes as long as, about."""
        return 0.0

    def measures(self, which: str) -> bool:
        """Whether there is data of that name, "eval" or "test"."""
        return getattr(self.options, which) is not None and self._is_first

    @abstractmethod
    def measure(self, session: Session, which: str, stop: Callable[[], bool]) -> Measured | None:
        """On the data of that name; None where `stop()` became true before all was seen."""

    def saved(self) -> dict:
        """What travels in the state of a run, as JSON has it."""
        return {}

    def restore(self, saved: dict) -> None:  # noqa: B027, most have nothing to restore
        """What saved() was, when the run was stopped."""
