# SPDX-License-Identifier: Apache-2.0
"""The class of each text, or of each word: the mean of -log p of its own."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data import Dataset
from mebp.data.classes import Label, check_several, choose_classes, classified_lengths, load_classified, read_classified
from mebp.data.loading import mix_datasets, split_datasets
from mebp.data.sources import Source, told
from mebp.data.token_classes import load_tagged, read_tagged, tagged_lengths
from mebp.errors import Error
from mebp.inspect import inspect
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.objectives.base import Measured
from mebp.training.objectives.rows import OfRows, told_mix
from mebp.training.options import TrainingOptions
from mebp.words import counted

_LOOKED_AT = 2000  # samples, from all over the file


class Classification(OfRows):
    curve = ("loss (nats per sample)",)
    metrics = ("accuracy",)
    load = staticmethod(load_classified)
    counts = "sample"

    @classmethod
    def labels_of(cls, path: Source) -> Sequence[Label]:
        return [sample.label for sample in read_classified(path)]

    @classmethod
    def check_data(cls, path: Source) -> None:
        cls.labels_of(path)

    @classmethod
    def classes_of(cls, options: TrainingOptions, config: Mapping[str, object]) -> Sequence[str]:
        labels = [label for source in options.data for label in cls.labels_of(source)]
        check_several(told(options.data), (label.value for label in labels))
        return choose_classes(labels, config)

    @classmethod
    def sequence_lengths(cls, options: TrainingOptions, tokenizer: Tokenizer) -> list[int] | None:
        return [length for source in options.data for length in classified_lengths(source, tokenizer, _LOOKED_AT)]

    def __init__(self, options: TrainingOptions, tokenizer: Tokenizer, length: int) -> None:
        super().__init__(options)
        if options.packing:
            raise Error("--packing is for text; a classifier's rows are a sample each, so leave it out")
        self._classes = inspect(options.bundle)["model"]["classes"]
        parts = [self.load(source, tokenizer, length, self._classes) for source in options.data]
        numbers = {int(label) for part in parts for row in part.rows for label in row.labels if label != IGNORED_LABEL}
        check_several(told(options.data), (self._classes[number] for number in numbers))
        held, hold_out = None, options.hold_out
        if hold_out:
            parts, held = split_datasets(parts, hold_out)
        self.data = mix_datasets(options.data, parts)
        measured = options.measured.items()
        self.measured = {name: self.load(source, tokenizer, length, self._classes) for name, source in measured}
        self.notes = [note for data in (self.data, *self.measured.values()) for note in data.notes]
        self.hold(held)
        self.digest = self.data.digest
        self.use(self.data)

    @classmethod
    def load_measured(cls, path: Source, tokenizer: Tokenizer, session: Session) -> Dataset:
        return cls.load(path, tokenizer, session.max_sequence, session.classes)

    def begin(self, session: Session) -> Iterator[str]:
        yield from super().begin(session)
        if session.steps == 0 and self.measures("eval"):
            found = self.measure_data(session, self.measured["eval"])
            yield f"before training  eval loss {found.loss:.4f}  accuracy {found.metrics['accuracy']:.4g}"

    def summary(self, session: Session) -> str:
        samples = counted(len(self.data.rows), "sample")
        return f"{samples} of {len(self._classes)} classes, of up to {session.max_sequence} tokens{told_mix(self.data)}"

    @classmethod
    def measure_data(cls, session: Session, data: Dataset, stop: Callable[[], bool] = lambda: False) -> Measured | None:
        """The mean loss of all that have a class, and the share of them whose own is the likeliest."""
        losses, right = [], 0
        for start in range(0, len(data.rows), session.max_batch):
            if stop():
                return None
            ids, labels, starts = data.padded(range(start, min(start + session.max_batch, len(data.rows))))
            rows, columns = np.nonzero(labels != IGNORED_LABEL)
            logits = session.logits(ids, 0, int(columns.max()) + 1, starts)[rows, columns].astype(np.float64)
            classes, highest = labels[rows, columns], logits.max(axis=1)
            own = logits[np.arange(len(classes)), classes]
            losses += (highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1)) - own).tolist()
            right += int(np.count_nonzero(logits.argmax(axis=1) == classes))
        return Measured(math.fsum(losses) / len(losses), {"accuracy": right / len(losses)})


class TokenClassification(Classification):
    curve = ("loss (nats per word)",)
    load = staticmethod(load_tagged)
    counts = "word"

    @classmethod
    def labels_of(cls, path: Source) -> Sequence[Label]:
        return [label for sample in read_tagged(path) for label in sample.counting]

    @classmethod
    def sequence_lengths(cls, options: TrainingOptions, tokenizer: Tokenizer) -> list[int] | None:
        return [length for source in options.data for length in tagged_lengths(source, tokenizer, _LOOKED_AT)]
