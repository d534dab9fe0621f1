# SPDX-License-Identifier: Apache-2.0
"""Samples of data files: plain text, JSON lines, a JSON array, or a table (CSV, Parquet, Arrow)."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mebp.data.columns import Columns
from mebp.data.forms import Document, Form, Sample, find_form, is_conversation, read_sample
from mebp.data.json_values import check_value, kind
from mebp.data.sources import Source
from mebp.data.stream import WANTED, DataFile, opened
from mebp.data.table import is_table, rows_of
from mebp.errors import Error

_JSON_NAMES = (".jsonl", ".json", ".ndjson")
_JSON_BEGINNING = re.compile(r'\s*(\[\s*)?\{\s*["}]')


class SampleFiles:
    """The samples of a source's files one after the other, all of one form, read as a stream.

    A file is JSON or a table by its name (.jsonl, .json, .csv, .tsv) or by how it begins; all else is one text.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._first: tuple[Path, str, Form | None] | None = None  # in which file, where, and which form

    def __iter__(self) -> Iterator[Sample]:
        """Raises mebp.Error, with the line, for what cannot be read, and where a file has no sample."""
        for sample in self.stream():
            yield Document(sample.where, "".join(sample.blocks)) if isinstance(sample, TextStream) else sample

    def stream(self) -> "Iterator[Sample | TextStream]":
        """The same, with plain text in parts, each of which has to be read before the next sample."""
        for path in self._source.files():
            with opened(path) as file:
                if file.arrow or is_table(file) or _is_json(path, file.head):
                    yield from self._samples(path, file)
                elif self._source.columns:
                    raise Error(f"{path}: is plain text, which has no columns; leave --columns out")
                else:
                    self._check_form(path, str(path), None)
                    yield TextStream(str(path), _some_text(path, file.blocks()))

    def _samples(self, path: Path, file: DataFile) -> Iterator[Sample]:
        weighs = self._source.counting.weighs
        for where, entry in objects_of(path, file, self._source.columns, weighs=weighs):
            form = find_form(where, entry)
            self._check_form(path, where, form)
            yield read_sample(where, form, entry, weighs)

    def _check_form(self, path: Path, where: str, form: Form | None) -> None:
        if self._first is None:
            self._first = path, where, form
        first, place, expected = self._first
        if form == expected:
            return
        if first == path:
            raise Error(f"{where}: has {form} where {place} has {expected}; use one form for all samples")
        found, wanted = (str(each) if each else "plain text" for each in (form, expected))
        raise Error(f"{where}: has {found} where {place} has {wanted}; use one form in the whole folder")


class TextStream:
    """A plain text, a part at a time."""

    def __init__(self, where: str, blocks: Iterator[str]) -> None:
        self.where, self.blocks = where, blocks


def read_samples(path: str | os.PathLike[str]) -> list[Sample]:
    """All samples of a file, at least one and all of one form.

    Raises mebp.Error, with the line, for what cannot be read.
    """
    return list(SampleFiles(Source.of(path)))


def json_objects(path: str | os.PathLike[str]) -> Iterator[tuple[str, dict]]:
    """Each object of a JSON file or row of a table, at least one of each file, and where it is: the file and the line
    that it begins in."""
    source = Source.of(path)
    for each in source.files():
        with opened(each) as file:
            yield from objects_of(each, file, source.columns)


def has_conversations(source: Source) -> bool:
    """Whether its first sample is one; raises mebp.Error where it cannot be read."""
    for path in source.files():
        with opened(path) as file:
            if not (file.arrow or is_table(file) or _is_json(path, file.head)):
                return False
            return is_conversation(next(objects_of(path, file, source.columns))[1])
    return False


def objects_of(
    path: Path, file: DataFile, columns: Columns, marks: bool = True, weighs: bool = False
) -> Iterator[tuple[str, dict]]:
    """The same of an open file; `marks` and `weighs` as rows_of has them."""
    objects = _objects_of(path, file, columns, marks, weighs)
    return columns.renamed(objects) if columns else objects


def _objects_of(path: Path, file: DataFile, columns: Columns, marks: bool, weighs: bool) -> Iterator[tuple[str, dict]]:
    found = False
    rows = rows_of(path, file, columns.theirs, marks, weighs) if is_table(file) else file.entries()
    for number, entry in rows:
        if not isinstance(entry, dict):
            raise Error(f"{path}:{number}: is {kind(entry)}; {WANTED}")
        where = f"{path}:{number}"
        check_value(where, entry)
        yield where, entry
        found = True
    if not found:
        what = "samples" if file.arrow or file.head.strip() else "text"
        raise Error(f"{path}: has no {what}; give another file")


def _some_text(path: Path, blocks: Iterator[str]) -> Iterator[str]:
    """The blocks; raises mebp.Error where all of them are blank."""
    blank = True
    for block in blocks:
        blank = blank and not block.strip()
        yield block
    if blank:
        raise Error(f"{path}: has no text; give another file")


def _is_json(path: Path, head: str) -> bool:
    # JSON of another name would be learned as text, with its braces and quotes.
    return path.suffix.lower() in _JSON_NAMES or _JSON_BEGINNING.match(head) is not None
