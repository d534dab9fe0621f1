# SPDX-License-Identifier: Apache-2.0
"""Tables (CSV): each row is an object with the columns' names as keys."""

import csv
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mebp.data.columns import KNOWN
from mebp.data.marks import MARKS, WEIGHT
from mebp.data.stream import DataFile
from mebp.errors import Error

_NAMES = (".csv", ".tsv")
_BEGINNINGS = (
    *({"prompt", "completion"}, {"instruction", "output"}, {"question", "answer"}),
    *({"text", "label"}, {"tokens", "labels"}),
)
_DELIMITERS = ",;\t"
_LONGEST_FIELD = 1 << 24  # characters; else a quote that is not closed would take the whole file into memory
_KEYS = {key for key in KNOWN if key not in MARKS} | {"label"}  # a column "Weight" may well be no mark
_MARKED = {"0": 0, "0.0": 0, "false": False, "1": 1, "1.0": 1, "true": True}


def is_table(file: DataFile) -> bool:
    """By the file's name, or by the columns that a file of any other name begins with."""
    if file.arrow:
        return False
    if file.path.suffix.lower() in _NAMES:
        return True
    first = file.head.split("\n", 1)[0]
    columns = {column.strip(" \t\r\"'").lower() for column in re.split(f"[{_DELIMITERS}]", first)}
    return any(columns >= expected for expected in _BEGINNINGS)


def rows_of(
    path: Path, file: DataFile, kept: Collection[str] = (), marks: bool = True, weighs: bool = False
) -> Iterator[tuple[int, dict[str, object]]]:
    """Each row below the header that is not blank, with the line that it begins in.

    kept: names of columns that stay as they are written; marks: whether fields may be marks (marks.py), else all are
    texts; weighs: whether a weight may be any number.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter_of(file.head)
    lines = (line for _, line in file.lines())
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    columns: Sequence[str] = ()
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise Error(
                f"{path}:{number}: has a quote that is not closed, text behind a closing quote, or a bare carriage "
                'return; write fields with quotes or line ends in them as "...", with "" for each quote'
            ) from error
        if not any(fields):
            continue
        if not columns:
            columns = _columns(f"{path}:{number}", fields, kept)
            continue
        if len(fields) != len(columns):
            raise Error(
                f"{path}:{number}: has {len(fields)} fields where the header has {len(columns)}; put quotes around "
                f"fields that have {_shown(delimiter)} in them"
            )
        row = dict(zip(columns, fields, strict=True))
        yield (
            number,
            {
                name: _mark(field, weighs and name == WEIGHT) if marks and name in MARKS else field
                for name, field in row.items()
            },
        )


def _delimiter_of(head: str) -> str:
    """That of which the header has most; a comma if it has none."""
    return max(_DELIMITERS, key=head.lstrip().split("\n", 1)[0].count)


def _columns(where: str, fields: Sequence[str], kept: Collection[str]) -> list[str]:
    """The names of the header; those that mebp reads are known in any letter case."""
    names = [name.strip(" \"'") for name in fields]
    names = [name.lower() if name.lower() in _KEYS and name not in kept else name for name in names]
    twice = next((name for index, name in enumerate(names) if name and name in names[:index]), None)
    if twice:
        raise Error(f'{where}: has two columns "{twice}"; rename one')
    return names


def _mark(field: str, weighs: bool) -> object:
    """A number, for a table has no types, or the text that is none."""
    with suppress(ValueError):
        return float(field) if weighs else _MARKED.get(field.strip().lower(), field)
    return _MARKED.get(field.strip().lower(), field)


def _shown(delimiter: str) -> str:
    return "tabs" if delimiter == "\t" else f"'{delimiter}'"
