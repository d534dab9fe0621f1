# SPDX-License-Identifier: Apache-2.0
"""Texts in words, with the class of each: names in a sentence, say."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mebp.arrays import IGNORED_LABEL
from mebp.data.classes import Label, cut_notes, own_row, read_entries, some_of
from mebp.data.dataset import Dataset
from mebp.data.json_values import kind
from mebp.data.unknown import unknown_notes
from mebp.errors import Error
from mebp.tokenizer import Tokenizer

_WANTED = 'give {"tokens": [words], "labels": [a class for each word, or -100]} a line'


@dataclass(frozen=True)
class Tagged:
    where: str  # the file and the line
    words: list[str]
    labels: list[Label | None]  # None: it does not count

    @property
    def counting(self) -> list[Label]:
        return [label for label in self.labels if label is not None]


def read_tagged(path: str | os.PathLike[str]) -> list[Tagged]:
    """All samples of a file; raises mebp.Error, with the line, for what cannot be read."""
    return [_read(where, entry) for where, entry in read_entries(path, ("tokens", "labels"), _WANTED)]


def _read(where: str, entry: dict) -> Tagged:
    words, labels = entry["tokens"], entry["labels"]
    for key, value in (("tokens", words), ("labels", labels)):
        if not isinstance(value, list):
            raise Error(f'{where}: "{key}" is {kind(value)}; {_WANTED}')
    wrong = [kind(word) for word in words if not isinstance(word, str)]
    if wrong:
        raise Error(f'{where}: one of "tokens" is {wrong[0]}; {_WANTED}')
    if len(words) != len(labels):
        raise Error(f"{where}: has {len(words)} tokens and {len(labels)} labels; give a label for each")
    ignored = [type(label) is int and label == IGNORED_LABEL for label in labels]
    if all(ignored):
        raise Error(f"{where}: has no label that counts; leave it out")
    read = [None if skip else Label.read(where, "labels", label) for label, skip in zip(labels, ignored, strict=True)]
    return Tagged(where, words, read)


def load_tagged(path: str | os.PathLike[str], tokenizer: Tokenizer, length: int, classes: Sequence[str]) -> Dataset:
    """Reads a file and makes a row of up to `length` tokens of each sample, cut at its end where it is longer. A word's
    class is that of its first token; its others do not count.

    Raises mebp.Error where the file cannot be read, or a label is none of `classes`.
    """
    rows, cut, samples = [], 0, read_tagged(path)
    for sample in samples:
        numbers = [IGNORED_LABEL if label is None else label.number(classes) for label in sample.labels]
        ids, words = tokenizer.encode_words(sample.words)
        if len(ids) > length:
            (ids, words), cut = tokenizer.encode_words(sample.words, length), cut + 1
        begins = [word is not None and word != before for before, word in pairwise([None, *words])]
        labels = [numbers[word] if first else IGNORED_LABEL for word, first in zip(words, begins, strict=True)]
        row = own_row(ids, labels)
        if row.counted:
            rows.append(row)
    if not rows:
        raise Error(
            f"{path}: no sample has a label that counts within {length} tokens; compile with a longer --seq-len"
        )
    notes = cut_notes(path, cut, len(samples), length)
    if len(rows) < len(samples):
        missing = f"had no label that counts within {length} tokens and were left out"
        notes.append(f"{path}: {len(samples) - len(rows):,} of {len(samples):,} samples {missing}")
    notes += unknown_notes(path, tokenizer, (row.ids for row in rows))
    return Dataset(rows, tokenizer.padding, notes, len(rows))


def tagged_lengths(path: str | os.PathLike[str], tokenizer: Tokenizer, at_most: int) -> list[int]:
    """Tokens of the file's samples, or of `at_most` from all over it."""
    return [len(tokenizer.encode_words(sample.words)[0]) for sample in some_of(read_tagged(path), at_most)]
