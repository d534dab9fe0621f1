# SPDX-License-Identifier: Apache-2.0
"""Text to be predicted: the mean of -log p over the labels that count."""

from collections.abc import Callable, Iterator

from mebp.data import load_dataset
from mebp.data.loading import sample_lengths
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.evaluation import evaluate
from mebp.training.objectives.base import Measured, Objective, Step
from mebp.training.options import TrainingOptions
from mebp.words import counted

_LOOKED_AT = 2000  # samples, from all over the file


class Supervised(Objective):
    has_perplexity = True
    curve = ("loss (nats per token)",)
    cuts_samples = True

    @classmethod
    def sequence_lengths(cls, options: TrainingOptions, tokenizer: Tokenizer) -> list[int] | None:
        return sample_lengths(options.data, tokenizer, _LOOKED_AT)

    def __init__(self, options: TrainingOptions, tokenizer: Tokenizer, length: int) -> None:
        super().__init__(options)
        self._data = load_dataset(options.data, tokenizer, length)
        named = {"eval": options.eval, "test": options.test}
        self._measured = {name: load_dataset(path, tokenizer, length) for name, path in named.items() if path}
        self.digest = self._data.digest
        self.notes = [note for data in (self._data, *self._measured.values()) for note in data.notes]

    def begin(self, session: Session) -> Iterator[str]:
        yield from self.notes

    def summary(self, session: Session) -> str:
        data = self._data
        return (
            f"{counted(data.counted, 'token')} to predict in {counted(len(data.rows), 'row')} of up to "
            f"{session.max_sequence}"
        )

    def steps_per_epoch(self, session: Session) -> int:
        return self._data.steps_per_epoch(session.max_batch * self.options.accumulate)

    def step(self, session: Session, number: int) -> Step:
        options = self.options
        ids, labels = self._data.step_batches(number, session.max_batch, options.accumulate, options.seed)
        return Step(session.step(ids, labels), sum(batch.size for batch in ids))

    def measure(self, session: Session, which: str, stop: Callable[[], bool]) -> Measured | None:
        loss = evaluate(session, self._measured[which], stop)
        return None if loss is None else Measured(loss)
