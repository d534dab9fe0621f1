# SPDX-License-Identifier: Apache-2.0
"""Columns of data under the names that mebp reads: --columns prompt=question,completion=answer."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mebp.data.forms import FORMS
from mebp.data.marks import MARKS
from mebp.errors import Error
from mebp.words import listed

_OF_PAIRS = ("chosen", "rejected")
_OF_CLASSES = ("text_pair", "label", "tokens", "labels")
_OF_ROLLOUTS = ("prompt_ids", "completions")
_FORM_KEYS = dict.fromkeys(key for form in FORMS for key in form.keys)
KNOWN = dict.fromkeys((*_FORM_KEYS, *_OF_PAIRS, *_OF_CLASSES, *_OF_ROLLOUTS, *MARKS))
# What a sample may lack.
_OPTIONAL = {"text_pair", *MARKS, *(key for form in FORMS for key in form.optional)}
_WANTED = "give NAME=COLUMN, or several with commas, such as prompt=question,completion=answer"


@dataclass(frozen=True)
class Columns:
    """Names that mebp reads, each with the column that has it in the data."""

    names: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, written: str | None) -> "Columns":
        """Raises mebp.Error for what is not written so, and for names that mebp does not read."""
        if written is None:
            return cls()
        pairs = [tuple(part.strip() for part in each.split("=", 1)) for each in written.split(",")]
        if not all(len(pair) == 2 and all(pair) for pair in pairs):
            raise Error(f"--columns is '{written}'; {_WANTED}")
        for name, _ in pairs:
            if name not in KNOWN:
                raise Error(f"--columns {written}: '{name}' is no name that mebp reads; choose {listed(KNOWN)}")
        for index, what in ((0, "the name"), (1, "the column")):
            given = [pair[index] for pair in pairs]
            twice = next((each for place, each in enumerate(given) if each in given[:place]), None)
            if twice is not None:
                raise Error(f"--columns {written}: has {what} '{twice}' twice; keep one")
        return cls(tuple(pairs))

    def __bool__(self) -> bool:
        return bool(self.names)

    def __str__(self) -> str:
        return ",".join(f"{name}={column}" for name, column in self.names)

    @property
    def theirs(self) -> set[str]:
        return {column for _, column in self.names}

    def renamed(self, samples: Iterator[tuple[str, dict]]) -> Iterator[tuple[str, dict]]:
        """Samples, each with where it is, under mebp's names. Raises mebp.Error where one has no such column, and at
        the end where none has one that a sample may lack."""
        missing = {column: name for name, column in self.names}
        where = ""
        for where, entry in samples:
            for name, column in self.names:
                if column in entry:
                    missing.pop(column, None)
                elif name not in _OPTIONAL:
                    raise Error(f'{where}: has no "{column}", which --columns reads as "{name}" in every file; '
                                f"{_has(entry)}")  # fmt: skip
            yield where, self._renamed(entry)
        if missing:
            column, name = next(iter(missing.items()))
            file = where.rpartition(":")[0]
            raise Error(f'{file}: no sample has "{column}", which --columns reads as "{name}"; {_has(entry)}')

    def _renamed(self, entry: Mapping[str, object]) -> dict:
        # A column that has the name already is another one.
        taken = {name for name, column in self.names if column in entry}
        rest = {key: value for key, value in entry.items() if key not in taken and key not in self.theirs}
        return rest | {name: entry[column] for name, column in self.names if column in entry}


def _has(entry: Mapping[str, object]) -> str:
    quoted = [json.dumps(key, ensure_ascii=False) for key in entry]
    return f"the sample has {listed(quoted, 'and')}" if entry else "the sample is empty"


AS_NAMED = Columns()
