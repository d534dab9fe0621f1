# SPDX-License-Identifier: Apache-2.0
"""Masked text: the mean of -log p over the tokens that were masked."""

from collections.abc import Mapping

from mebp.data import Dataset
from mebp.data.masking import PROBABILITY, Masking, load_masked, load_measured, read_documents
from mebp.data.sharing import Sharing
from mebp.data.sources import Source
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.objectives.base import vocabulary_of
from mebp.training.objectives.rows import OfRows, told_mix
from mebp.training.options import TrainingOptions
from mebp.words import counted


class Masked(OfRows):
    has_perplexity = True
    curve = ("loss (nats per masked token)",)
    counts = "masked token"

    @classmethod
    def check_data(cls, path: Source) -> None:
        for _ in read_documents(path):
            pass

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
        self.data = load_masked(options.data, tokenizer, length, masking, sharing)
        measured = options.measured.items()
        self.measured = {name: load_measured(source, tokenizer, length, vocabulary) for name, source in measured}
        self.digest = self.data.whole.digest
        self.notes = [note for data in (self.data.whole, *self.measured.values()) for note in data.notes]
        self.use(self.data.whole)

    def description(self) -> Mapping[str, object]:
        return {
            "--mask-probability": self._probability,
            "--packing": None if self.options.packing is False else "on",
        }

    @classmethod
    def load_measured(cls, path: Source, tokenizer: Tokenizer, session: Session) -> Dataset:
        return load_measured(path, tokenizer, session.max_sequence, session.vocabulary)

    def summary(self, session: Session) -> str:
        data = self.data.whole
        return (
            f"{counted(data.counted, 'token')}, of which {100 * self._probability:.3g} % are masked, in "
            f"{counted(data.samples, 'sample')} in {counted(len(data.rows), 'row')} of up to {session.max_sequence}"
            f"{told_mix(data)}"
        )
