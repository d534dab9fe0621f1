# SPDX-License-Identifier: Apache-2.0
"""The one exception that this package raises on purpose, and how others become it."""

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
