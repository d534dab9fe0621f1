# SPDX-License-Identifier: Apache-2.0
"""Texts with the class that each is of, or each of their words."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Dataset, Row
from mebp.data.json_values import kind, parse_json, read_string
from mebp.data.reading import objects_of
from mebp.data.sources import Source
from mebp.data.stream import opened
from mebp.data.table import is_table
from mebp.data.unknown import unknown_notes
from mebp.errors import Error
from mebp.tokenizer import Tokenizer

_Sample = TypeVar("_Sample")
_MOST_CLASSES = 1 << 16  # each has a row of weights, and where classes have no names, one that is made up
_WANTED = 'give {"text", "label"}, with or without "text_pair", a line'


@dataclass(frozen=True)
class Label:
    """The name or the number of a class."""

    where: str  # the file and the line
    value: str | int

    @classmethod
    def read(cls, where: str, key: str, value: object) -> "Label":
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise Error(f'{where}: "{key}" is {kind(value)}; give the name of a class or its number')
        if isinstance(value, int) and abs(value) > _MOST_CLASSES:
            raise Error(f'{where}: "{key}" is {value!r:.40}; number the classes from 0, or give their names')
        return cls(where, value)

    def number(self, classes: Sequence[str]) -> int:
        """Of `classes`; raises mebp.Error where it is none of them."""
        if isinstance(self.value, str) and self.value in classes:
            return classes.index(self.value)
        if isinstance(self.value, int) and 0 <= self.value < len(classes):
            return self.value
        raise Error(f"{self.where}: its label is {self.value!r}; the classes are {_listed(classes)}")


@dataclass(frozen=True)
class Classified:
    """A text, or a pair of them."""

    text: str
    pair: str | None
    label: Label


def read_classified(path: str | os.PathLike[str]) -> list[Classified]:
    """All samples of a file; raises mebp.Error, with the line, for what cannot be read."""
    return [_read(where, entry) for where, entry in read_entries(path, ("text", "label"), _WANTED)]


def read_entries(path: str | os.PathLike[str], keys: Sequence[str], wanted: str) -> Iterator[tuple[str, dict]]:
    """The objects of a file of JSON or the rows of a table, or those of a folder, which have these keys, and where each
    is; `wanted` says what else to give."""
    source = Source.of(path)
    for each in source.files():
        with opened(each) as file:
            typed = is_table(file)
            if file.head.strip() and file.head.lstrip()[0] not in "[{" and not typed:
                raise Error(f"{each}: is not JSON; {wanted}")
            for where, entry in objects_of(each, file, source.columns, marks=False):
                for key in keys:
                    if key not in entry:
                        raise Error(f'{where}: has no "{key}"; {wanted}, or name your columns with --columns')
                yield where, _with_types(where, entry) if typed else entry


def _with_types(where: str, row: Mapping[str, str]) -> dict[str, object]:
    """A row of a table, which has texts alone, as JSON would have it: whole numbers as labels, lists for words."""
    found: dict[str, object] = {key: field for key, field in row.items() if key != "text_pair" or field}
    if "label" in row:
        found["label"] = _number_or_name(row["label"])
    for key in ("tokens", "labels"):
        if key in row:
            is_json = row[key].lstrip().startswith("[")
            found[key] = parse_json(where, row, key) if is_json else row[key].split()
    if isinstance(found.get("labels"), list):
        found["labels"] = [_number_or_name(each) if isinstance(each, str) else each for each in found["labels"]]
    return found


def _number_or_name(field: str) -> int | str:
    return int(field) if re.fullmatch(r"\s*-?[0-9]{1,9}\s*", field) else field


def _read(where: str, entry: dict) -> Classified:
    text = read_string(where, entry, "text")
    pair = None if entry.get("text_pair") is None else read_string(where, entry, "text_pair")
    if not text.strip():
        raise Error(f'{where}: "text" is empty, so there is nothing to tell its class by; leave it out')
    return Classified(text, pair, Label.read(where, "label", entry["label"]))


def choose_classes(labels: Sequence[Label], config: Mapping[str, object]) -> list[str]:
    """The classes of a model that is to learn these labels: those of its config.json where they are all there, else
    the labels' own, in alphabetical order."""
    known = _known_classes(config)
    names = sorted({label.value for label in labels if isinstance(label.value, str)})
    numbers = [label.value for label in labels if isinstance(label.value, int)]
    if names and numbers:
        number = next(label for label in labels if isinstance(label.value, int))
        raise Error(f"{number.where}: its label is a number, others are names; use one of both for all samples")
    if set(names) <= set(known) and max(numbers, default=0) < max(len(known), 1) and known:
        return known
    return names or [f"LABEL_{number}" for number in range(max(*numbers, 1) + 1)]


def check_several(data: str, labels: Iterable[str | int]) -> None:
    """Raises mebp.Error where all samples to train on have the same label."""
    found = set(labels)
    if len(found) == 1:
        raise Error(
            f"{data}: every label is {found.pop()!r:.80}, so there is nothing to tell apart; add samples of other "
            "classes"
        )


def _known_classes(config: Mapping[str, object]) -> list[str]:
    named = config.get("id2label")
    if not isinstance(named, dict) or not all(str(number) in named for number in range(len(named))):
        return []
    return [str(named[str(number)]) for number in range(len(named))]


def load_classified(path: str | os.PathLike[str], tokenizer: Tokenizer, length: int, classes: Sequence[str]) -> Dataset:
    """Reads a file and makes a row of up to `length` tokens of each sample, cut at its end where it is longer.

    Raises mebp.Error where the file cannot be read, or a label is none of `classes`.
    """
    rows, cut = [], 0
    for sample in read_classified(path):
        label = sample.label.number(classes)
        ids = tokenizer.encode_sample(sample.text, sample.pair)
        if len(ids) > length:
            ids, cut = tokenizer.encode_sample(sample.text, sample.pair, length), cut + 1
        rows.append(own_row(ids, [label]))
    notes = [*cut_notes(path, cut, len(rows), length), *unknown_notes(path, tokenizer, (row.ids for row in rows))]
    return Dataset(rows, tokenizer.padding, notes, len(rows))


def own_row(ids: Sequence[int], labels: Sequence[int]) -> Row:
    """A sample's, with the labels of its first tokens; the others' do not count."""
    filled = np.full(len(ids), IGNORED_LABEL, np.int32)
    filled[: len(labels)] = labels
    return Row(np.asarray(ids, np.int32), filled, np.zeros(len(ids), np.int32), shift=0)


def cut_notes(path: str | os.PathLike[str], cut: int, samples: int, length: int) -> list[str]:
    return [f"{path}: {cut:,} of {samples:,} samples were cut to {length} tokens"] if cut else []


def _listed(classes: Sequence[str]) -> str:
    shown = [f"{name} ({number})" for number, name in enumerate(classes[:8])]
    return ", ".join(shown) + (f" and {len(classes) - 8} more" if len(classes) > 8 else "")


def classified_lengths(path: str | os.PathLike[str], tokenizer: Tokenizer, at_most: int) -> list[int]:
    """Tokens of the file's samples, or of `at_most` from all over it."""
    chosen = some_of(read_classified(path), at_most)
    return [len(tokenizer.encode_sample(sample.text, sample.pair)) for sample in chosen]


def some_of(samples: Sequence[_Sample], at_most: int) -> list[_Sample]:
    """All, or `at_most` from all over them."""
    count = min(at_most, len(samples))
    return [samples[index * len(samples) // count] for index in range(count)]
