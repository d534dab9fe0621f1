# SPDX-License-Identifier: Apache-2.0
"""The one exception that this package raises on purpose, and how others become it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from mebp.words import printable

_LONGEST = 160
_ABOUT_CODE = (AttributeError, TypeError, AssertionError)  # whoever raises them
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


class Error(Exception):
    """What went wrong, in one line that names the thing and says what to do; the command line prints the same line."""

    def __init__(self, message: object) -> None:
        super().__init__(printable(" ".join(str(message).split())))


@contextmanager
def translate_errors(
    what: str, advice: str, kinds: type[Exception] | tuple[type[Exception], ...] = OSError
) -> Iterator[None]:
    """An error of one of these kinds in the block becomes an Error: `what`, what explains it, and `advice`."""
    try:
        yield
    except Error:
        raise
    except kinds as error:
        raise Error(f"{what}{explained(error)}; {advice}") from error


def reason(error: BaseException) -> str:
    """The system's own words, or what a library says, without the pages that often follow."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    lines = str(error).strip().splitlines()
    return lines[0].strip(" .") if lines else type(error).__name__


def sentence(error: BaseException) -> str | None:
    """What the system says, or what a library's code raises itself; None for Python's own words, such as "'int' object
    has no attribute 'items'", which name nothing that a user knows."""
    while error.__cause__ is not None and not type(error).__module__.startswith("mebp."):
        error = error.__cause__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, _ABOUT_CODE) or not _is_said(error) or not str(error).strip():
        return None
    said = str(error.args[0]) if isinstance(error, KeyError) and error.args else reason(error)
    if isinstance(error, KeyError) and " " not in said:  # the key that a table does not have
        return None
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."


def explained(error: BaseException) -> str:
    """The sentence in parentheses, with a space before it, or nothing."""
    said = sentence(error)
    return f" ({said})" if said else ""


def _is_said(error: BaseException) -> bool:
    """Whether a raise statement made it, or a package that is not in Python, and not the interpreter."""
    import dis  # which only a failure needs

    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    is_raised = place is not None and dis.opname[place.tb_frame.f_code.co_code[place.tb_lasti]] == "RAISE_VARARGS"
    return is_raised or type(error) is Exception or type(error).__module__ != "builtins"


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
