# SPDX-License-Identifier: Apache-2.0
"""Data files: plain text, JSON lines, or a JSON array."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from mebp.data.forms import Document, Sample, find_form, kind, read_sample
from mebp.data.json_values import check_value
from mebp.errors import Error
from mebp.files import read_text

_JSON_NAMES = (".jsonl", ".json", ".ndjson")
_JSON_BEGINNING = re.compile(r'\s*(\[\s*)?\{\s*["}]')
_BETWEEN_ENTRIES = re.compile(r"[ \t\r\n,]*")
_TABLE_NAMES = (".csv", ".tsv")
_TABLE_COLUMNS = ({"prompt", "completion"}, {"instruction", "output"}, {"question", "answer"})
_WANTED = "write one object a line, or one array of objects"


def read_samples(path: Path) -> list[Sample]:
    """All samples of a file, at least one and all of one form.

    A file is JSON by its name (.jsonl, .json) or by how it begins; all else is one text.
    Raises mebp.Error, with the line, for what cannot be read.
    """
    text = read_text(path, "check the path")
    if _is_table(path, text):
        raise Error(
            f'{path}: is a table (CSV); write each row as a JSON line, {{"prompt": "...", "completion": "..."}}, '
            "to a .jsonl file"
        )
    if text.strip() and not _is_json(path, text):
        return [Document(str(path), text)]
    samples, first, first_form = [], 0, None
    for number, entry in json_objects(path, text):
        where = f"{path}:{number}"
        form = find_form(where, entry)
        if first_form is None:
            first, first_form = number, form
        if form != first_form:
            raise Error(f"{where}: has {form} where line {first} has {first_form}; use one form in the whole file")
        samples.append(read_sample(where, form, entry))
    return samples


def json_objects(path: Path, text: str) -> list[tuple[int, dict]]:
    """Each object of a JSON file, at least one, with the line that it begins in."""
    if not text.strip():
        raise Error(f"{path}: has no text; give another file")
    entries = list(json_entries(path, text))
    for number, entry in entries:
        if not isinstance(entry, dict):
            raise Error(f"{path}:{number}: is {kind(entry)}; {_WANTED}")
        check_value(f"{path}:{number}", entry)
    if not entries:
        raise Error(f"{path}: has no samples; give another file")
    return entries


def _is_json(path: Path, text: str) -> bool:
    # JSON of another name would be learned as text, with its braces and quotes.
    return path.suffix.lower() in _JSON_NAMES or _JSON_BEGINNING.match(text) is not None


def _is_table(path: Path, text: str) -> bool:
    if path.suffix.lower() in _TABLE_NAMES:
        return True
    columns = {column.strip(" \t\r\"'").lower() for column in re.split("[,;\t]", text.split("\n", 1)[0])}
    return any(columns >= expected for expected in _TABLE_COLUMNS)


def json_entries(path: Path, text: str) -> Iterator[tuple[int, object]]:
    """Each value of a JSON file, with the line that it begins in; raises mebp.Error for what is not JSON."""
    if text.lstrip().startswith("["):
        _parse(path, 1, text)
        yield from _array_entries(text)
        return
    # str.splitlines would also split at separators that JSON allows within a string.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if lines[0][1].strip() == "{":  # one object, spread over lines
        yield lines[0][0], _parse(path, 1, text)
        return
    for number, line in lines:
        yield number, _parse(path, number, line)


def _array_entries(text: str) -> Iterator[tuple[int, object]]:
    """The entries of an array that is known to be JSON."""
    decoder = json.JSONDecoder()
    line, counted, position = 1, 0, text.index("[") + 1
    while text[position := _BETWEEN_ENTRIES.match(text, position).end()] != "]":
        line += text.count("\n", counted, position)
        counted = position
        entry, position = decoder.raw_decode(text, position)
        yield line, entry


def _parse(path: Path, first_line: int, text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line, reason = first_line + error.lineno - 1, f"{error.msg}, column {error.colno}"
    except RecursionError:
        line, reason = first_line, "nested too deep"
    except ValueError:
        line, reason = first_line, "a number of thousands of digits"
    raise Error(f"{path}:{line}: is not JSON ({reason}); {_WANTED}")
