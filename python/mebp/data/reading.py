# SPDX-License-Identifier: Apache-2.0
"""Samples of data files: plain text, JSON lines, a JSON array, or a table."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from mebp.data.forms import Document, Form, Sample, find_form, read_sample
from mebp.data.json_values import check_value, kind
from mebp.data.stream import WANTED, DataFile, opened
from mebp.data.table import is_table, rows_of
from mebp.errors import Error

_JSON_NAMES = (".jsonl", ".json", ".ndjson")
_JSON_BEGINNING = re.compile(r'\s*(\[\s*)?\{\s*["}]')


class SampleFiles:
    """The samples of files one after the other, all of one form, read as a stream.

    A file is JSON or a table by its name (.jsonl, .json, .csv, .tsv) or by how it begins; all else is one text.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self._first: tuple[Path, int, Form | None] | None = None  # where the form was found, and which

    def __iter__(self) -> Iterator[Sample]:
        """Raises mebp.Error, with the line, for what cannot be read, and where a file has no sample."""
        for sample in self.stream():
            yield Document(sample.where, "".join(sample.blocks)) if isinstance(sample, TextStream) else sample

    def stream(self) -> "Iterator[Sample | TextStream]":
        """The same, with plain text in parts, each of which has to be read before the next sample."""
        for path in self.files:
            with opened(path) as file:
                if is_table(path, file.head) or _is_json(path, file.head):
                    yield from self._samples(path, file)
                else:
                    self._check_form(path, 0, None)
                    yield TextStream(str(path), _some_text(path, file.blocks()))

    def _samples(self, path: Path, file: DataFile) -> Iterator[Sample]:
        for number, entry in objects_of(path, file):
            where = f"{path}:{number}"
            form = find_form(where, entry)
            self._check_form(path, number, form)
            yield read_sample(where, form, entry)

    def _check_form(self, path: Path, number: int, form: Form | None) -> None:
        if self._first is None:
            self._first = path, number, form
        first, line, expected = self._first
        if form == expected:
            return
        where = f"{path}:{number}" if form else str(path)
        if first == path:
            raise Error(f"{where}: has {form} where line {line} has {expected}; use one form in the whole file")
        found, wanted = (str(each) if each else "plain text" for each in (form, expected))
        place = f"{first}:{line}" if expected else str(first)
        raise Error(f"{where}: has {found} where {place} has {wanted}; use one form in the whole folder")


class TextStream:
    """A plain text, a part at a time."""

    def __init__(self, where: str, blocks: Iterator[str]) -> None:
        self.where, self.blocks = where, blocks


def read_samples(path: Path) -> list[Sample]:
    """All samples of a file, at least one and all of one form.

    Raises mebp.Error, with the line, for what cannot be read.
    """
    return list(SampleFiles([path]))


def json_objects(path: Path) -> Iterator[tuple[int, dict]]:
    """Each object of a JSON file or row of a table, at least one, with the line that it begins in."""
    with opened(path) as file:
        yield from objects_of(path, file)


def objects_of(path: Path, file: DataFile) -> Iterator[tuple[int, dict]]:
    """The same of an open file."""
    found = False
    for number, entry in rows_of(path, file) if is_table(path, file.head) else file.entries():
        if not isinstance(entry, dict):
            raise Error(f"{path}:{number}: is {kind(entry)}; {WANTED}")
        check_value(f"{path}:{number}", entry)
        yield number, entry
        found = True
    if not found:
        what = "samples" if file.head.strip() else "text"
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
