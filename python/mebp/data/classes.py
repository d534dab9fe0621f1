# SPDX-License-Identifier: Apache-2.0
"""Texts with the class that each is of."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Dataset, Row
from mebp.data.forms import kind, read_string
from mebp.data.reading import json_objects
from mebp.errors import Error
from mebp.files import read_text, user_path
from mebp.tokenizer import Tokenizer

_WANTED = 'give {"text", "label"}, with or without "text_pair", a line'


@dataclass(frozen=True)
class Classified:
    """A text, or a pair of them, and the name or the number of its class."""

    where: str  # the file and the line
    text: str
    pair: str | None
    label: str | int


class ClassifiedRow(Row):
    """Its only label that counts is at its first token, whose own it is."""

    @property
    def counted(self) -> int:
        return int(np.count_nonzero(self.labels != IGNORED_LABEL))


def read_classified(path: str | os.PathLike[str]) -> list[Classified]:
    """All samples of a file of JSON; raises mebp.Error, with the line, for what cannot be read."""
    path = user_path(path)
    text = read_text(path, "check the path")
    if text.strip() and text.lstrip()[0] not in "[{":
        raise Error(f"{path}: is not JSON; {_WANTED}")
    return [_read(f"{path}:{number}", entry) for number, entry in json_objects(path, text)]


def _read(where: str, entry: dict) -> Classified:
    for key in ("text", "label"):
        if key not in entry:
            raise Error(f'{where}: has no "{key}"; {_WANTED}')
    text = read_string(where, entry, "text")
    pair = None if entry.get("text_pair") is None else read_string(where, entry, "text_pair")
    if not text.strip():
        raise Error(f'{where}: "text" is empty, so there is nothing to tell its class by; leave it out')
    label = entry["label"]
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise Error(f'{where}: "label" is {kind(label)}; give the name of a class or its number')
    return Classified(where, text, pair, label)


def choose_classes(samples: Sequence[Classified], config: Mapping[str, object]) -> list[str]:
    """The classes of a model that is to learn these samples: those of its config.json where they are all there, else
    the samples' own, in alphabetical order."""
    known = _known_classes(config)
    names = sorted({sample.label for sample in samples if isinstance(sample.label, str)})
    numbers = [sample.label for sample in samples if isinstance(sample.label, int)]
    if names and numbers:
        number = next(sample for sample in samples if isinstance(sample.label, int))
        raise Error(f"{number.where}: its label is a number, others are names; use one of both in the whole file")
    if set(names) <= set(known) and max(numbers, default=0) < max(len(known), 1) and known:
        return known
    return names or [f"LABEL_{number}" for number in range(max(*numbers, 1) + 1)]


def _known_classes(config: Mapping[str, object]) -> list[str]:
    named = config.get("id2label")
    if not isinstance(named, dict) or not all(str(number) in named for number in range(len(named))):
        return []
    return [str(named[str(number)]) for number in range(len(named))]


def load_classified(path: str | os.PathLike[str], tokenizer: Tokenizer, length: int, classes: Sequence[str]) -> Dataset:
    """Reads a file and makes a row of up to `length` tokens of each sample, cut at its end where it is longer.

    Raises mebp.Error where the file cannot be read, or a label is none of `classes`.
    """
    samples = read_classified(path)
    rows, cut = [], 0
    for sample in samples:
        label = _number_of(sample, classes)
        ids = tokenizer.encode_sample(sample.text, sample.pair)
        if len(ids) > length:
            ids, cut = tokenizer.encode_sample(sample.text, sample.pair, length), cut + 1
        labels = np.full(len(ids), IGNORED_LABEL, np.int32)
        labels[0] = label
        rows.append(ClassifiedRow(np.asarray(ids, np.int32), labels, np.zeros(len(ids), np.int32)))
    notes = [f"{path}: {cut:,} of {len(rows):,} samples were cut to {length} tokens"] if cut else []
    return Dataset(rows, tokenizer.padding, notes, len(rows))


def _number_of(sample: Classified, classes: Sequence[str]) -> int:
    if isinstance(sample.label, str) and sample.label in classes:
        return classes.index(sample.label)
    if isinstance(sample.label, int) and 0 <= sample.label < len(classes):
        return sample.label
    raise Error(f"{sample.where}: its label is {sample.label!r}; the classes are {_listed(classes)}")


def _listed(classes: Sequence[str]) -> str:
    shown = [f"{name} ({number})" for number, name in enumerate(classes[:8])]
    return ", ".join(shown) + (f" and {len(classes) - 8} more" if len(classes) > 8 else "")


def classified_lengths(path: Path, tokenizer: Tokenizer, at_most: int) -> list[int]:
    """Tokens of the file's samples, or of `at_most` from all over it."""
    samples = read_classified(path)
    count = min(at_most, len(samples))
    chosen = [samples[index * len(samples) // count] for index in range(count)]
    return [len(tokenizer.encode_sample(sample.text, sample.pair)) for sample in chosen]
