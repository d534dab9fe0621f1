# SPDX-License-Identifier: Apache-2.0
"""Masked text: the mean of -log p over the tokens that were masked."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mebp.data.masking import PROBABILITY, Masking, load_masked, load_measured, read_documents
from mebp.data.sharing import Sharing
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.evaluation import evaluate
from mebp.training.objectives.base import Measured, Objective, Step, vocabulary_of
from mebp.training.options import TrainingOptions
from mebp.words import counted


class Masked(Objective):
    has_perplexity = True
    curve = ("loss (nats per masked token)",)
    cuts_samples = True

    @classmethod
    def check_data(cls, path: Path) -> None:
        read_documents(path)

    @classmethod
    def sequence_lengths(cls, options: TrainingOptions, tokenizer: Tokenizer) -> list[int] | None:
        _ = tokenizer.mask  # said now, if there is none, and not in some minutes
        return None

    def __init__(self, options: TrainingOptions, tokenizer: Tokenizer, length: int) -> None:
        super().__init__(options)
        self._probability = PROBABILITY if options.mask_probability is None else options.mask_probability
        vocabulary = vocabulary_of(options.bundle)
        masking = Masking.of(tokenizer, vocabulary, self._probability)
        sharing = None if options.packing is False else Sharing(options.seed)
        self._data = load_masked(options.data, tokenizer, length, masking, sharing)
        paths = {"eval": options.eval, "test": options.test}
        self._measured = {
            name: load_measured(path, tokenizer, length, vocabulary) for name, path in paths.items() if path
        }
        self.digest = self._data.whole.digest

    def description(self) -> Mapping[str, object]:
        return {
            "--mask-probability": self._probability,
            "--packing": None if self.options.packing is False else "on",
        }

    def begin(self, session: Session) -> Iterator[str]:
        yield from self.notes

    def summary(self, session: Session) -> str:
        data = self._data.whole
        return (
            f"{counted(data.counted, 'token')}, of which {100 * self._probability:.3g} % are masked, in "
            f"{counted(data.samples, 'sample')} in {counted(len(data.rows), 'row')} of up to {session.max_sequence}"
        )

    def steps_per_epoch(self, session: Session) -> int:
        return self._data.whole.steps_per_epoch(session.max_batch * self.options.accumulate)

    def step(self, session: Session, number: int) -> Step:
        options = self.options
        batches = self._data.step_batches(number, session.max_batch, options.accumulate, options.seed)
        return Step(session.step(*batches), sum(ids.size for ids in batches[0]))

    def measure(self, session: Session, which: str, stop: Callable[[], bool]) -> Measured | None:
        loss = evaluate(session, self._measured[which], stop)
        return None if loss is None else Measured(loss)
