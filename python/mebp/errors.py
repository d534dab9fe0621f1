# SPDX-License-Identifier: Apache-2.0
"""The one exception that this package raises on purpose, and how others become it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from mebp.words import printable


class Error(Exception):
    """What went wrong, in one line that names the thing and says what to do; the command line prints the same line."""

    def __init__(self, message: object) -> None:
        super().__init__(printable(" ".join(str(message).split())))


@contextmanager
def translate_errors(
    what: str, advice: str, kinds: type[Exception] | tuple[type[Exception], ...] = OSError
) -> Iterator[None]:
    """An error of one of these kinds in the block becomes an Error: `what`, the reason, and `advice`."""
    try:
        yield
    except Error:
        raise
    except kinds as error:
        raise Error(f"{what} ({reason(error)}); {advice}") from error


def reason(error: BaseException) -> str:
    """The system's own words, or what a library says, without the pages that often follow."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    return lines[0].strip(" .") if lines else type(error).__name__


_JSON_TROUBLE = {  # by the beginnings of what the json module says
    "Expecting value": "a value is missing",
    "Expecting property name": "a name in double quotes is missing",
    "Expecting ':'": "a colon is missing",
    "Expecting ','": "a comma is missing",
    "Unterminated string": "a text has no end",
    "Invalid control character": "a text has a line break or another control character",
    "Invalid \\": "a backslash begins no escape",
    "Illegal trailing comma": "a comma has nothing behind it",
    "Unexpected UTF-8 BOM": "it begins with a byte order mark",
    "Extra data": "something follows the value",
}


def json_trouble(error: ValueError | RecursionError) -> str:
    """What the json module finds wrong, in our words and without the place."""
    if isinstance(error, RecursionError):
        return "nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    if not isinstance(error, json.JSONDecodeError):
        return "a number of thousands of digits"
    found = (ours for theirs, ours in _JSON_TROUBLE.items() if error.msg.startswith(theirs))
    return next(found, "it cannot be read")
