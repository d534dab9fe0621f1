# SPDX-License-Identifier: Apache-2.0
"""What a command shows while it computes."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING

from mebp.words import is_terminal, printable, say

if TYPE_CHECKING:
    from rich.status import Status


def waiting(for_what: str) -> AbstractContextManager:
    """A line that moves on a terminal; nothing elsewhere."""
    return _moving(for_what) or nullcontext()


def _moving(text: str) -> "Status | None":
    """The line, on standard error where that is a terminal."""
    if not is_terminal(sys.stderr):
        return None
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    return console.status(Text(printable(text))) if console.is_terminal else None


_teller: ContextVar[Callable[[str], None]] = ContextVar("teller", default=lambda line: None)


def tell(line: str) -> None:
    """Says something to whoever waits: by what told_by has set, else to nobody."""
    _teller.get()(line)


@contextmanager
def told_by(say: Callable[[str], None]) -> Iterator[None]:
    """What `tell` calls within."""
    token = _teller.set(say)
    try:
        yield
    finally:
        _teller.reset(token)


@contextmanager
def stages(first: str, elsewhere: Callable[[str], object] = say) -> Iterator[Callable[[str], object]]:
    """Yields a function that says what begins. A terminal shows it in a line that moves, from the `first` stage on;
    elsewhere it is `elsewhere`, by default a line on standard output."""
    moving = _moving(first)
    if moving is None:
        yield elsewhere
        return
    from rich.text import Text

    with moving as status:
        yield lambda stage: status.update(Text(printable(stage)))
