# SPDX-License-Identifier: Apache-2.0
"""Numbers with their nouns, names with commas between them, and lines that a terminal may show."""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

# What moves the cursor, turns the direction of writing or cannot be encoded; not the end of a line and the tab.
_CONTROLS = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")

_LINE = re.compile(":([0-9]+)")
_DATA_OF_COMMAND = ("--data ", "--data '")

STANDARD_OUTPUT = "standard output"
_called: dict[str, str] = {}


def counted(number: int, noun: str) -> str:
    """ "1 step", "12,000 steps": the noun takes an s."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def listed(names: Iterable[str], word: str = "or") -> str:
    """ "a, b or c" """
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


@contextmanager
def called(path: str, name: str) -> Iterator[None]:
    """Within, what is told of the file `path`, which its reader has not named, is told of `name` and its samples."""
    _called[path] = name
    try:
        yield
    finally:
        _called.pop(path, None)


def printable(text: str) -> str:
    """`text` with each control character as its escape, `\\x1b`: a name in a stranger's file may hold a sequence that
    rewrites what a terminal shows."""
    for path, name in list(_called.items()):
        text = _with_name(text, path, name)
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _with_name(text: str, path: str, name: str) -> str:
    told, *rest = text.split(path)
    for part in rest:
        line = _LINE.match(part)
        if told.endswith(_DATA_OF_COMMAND):  # which has to work as it stands
            told += path + part
        elif line:
            told += f"sample {line[1]} of {name}{part[line.end() :]}"
        else:
            told += name + part
    return told


def is_terminal(stream: TextIO) -> bool:
    """Not a notebook's, which sets FORCE_COLOR for all that it starts, so that rich takes any stream for one."""
    return hasattr(stream, "isatty") and stream.isatty()


def say(text: object = "", *, error: bool = False, end: str = "\n") -> None:
    """Prints `text`, whoever wrote parts of it, on standard output or, with `error`, on standard error.

    An OSError that says why it cannot has the stream as its file's name.
    """
    _print(printable(str(text)), end, error)


def answer(text: str, *, end: str = "\n") -> None:
    """Prints what a model wrote: on a terminal as `say` does, and as it is into a file or a pipe."""
    _print(printable(text) if is_terminal(sys.stdout) else text, end)


def say_in_colour(pieces: Iterable[tuple[str, str]], *, end: str = "\n") -> None:
    """Prints texts on standard output, as `say` does, each in what a terminal's code asks for; "" for none."""
    shown = (f"\x1b[{code}m{printable(text)}\x1b[0m" if code else printable(text) for text, code in pieces)
    _print("".join(shown), end)


def _print(text: str, end: str, error: bool = False) -> None:
    try:
        print(text, end=end, file=sys.stderr if error else sys.stdout, flush=True)
    except OSError as failure:
        failure.filename = "standard error" if error else STANDARD_OUTPUT
        raise
