# SPDX-License-Identifier: Apache-2.0
"""What objectives have in common whose data are rows that are read before the run."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mebp.data import Dataset
from mebp.data.masking import MaskedText
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.evaluation import evaluate
from mebp.training.objectives.base import Measured, Objective, Step


class OfRows(Objective):
    counts = "token"  # what a loss is a mean over
    cuts_samples = True
    data: Dataset | MaskedText  # that is trained on
    measured: Mapping[str, Dataset]  # by "eval" and "test"

    @classmethod
    @abstractmethod
    def load_measured(cls, path: Path, tokenizer: Tokenizer, session: Session) -> Dataset:
        """A file to measure on, as the bundle takes it. Raises mebp.Error where it cannot be read."""

    @classmethod
    def measure_data(cls, session: Session, data: Dataset, stop: Callable[[], bool] = lambda: False) -> Measured | None:
        """None where `stop()` became true before all was seen; changes nothing in the session."""
        loss = evaluate(session, data, stop)
        return None if loss is None else Measured(loss)

    def begin(self, session: Session) -> Iterator[str]:
        yield from self.notes

    def steps_per_epoch(self, session: Session) -> int:
        return self.data.steps_per_epoch(session.max_batch * self.options.accumulate)

    def step(self, session: Session, number: int) -> Step:
        options = self.options
        batches = self.data.step_batches(number, session.max_batch, options.accumulate, options.seed)
        return Step(session.step(*batches), sum(ids.size for ids in batches[0]))

    def measure(self, session: Session, which: str, stop: Callable[[], bool]) -> Measured | None:
        return self.measure_data(session, self.measured[which], stop)
