# SPDX-License-Identifier: Apache-2.0
"""What a command shows while it computes."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from mebp.words import printable, say


def waiting(for_what: str) -> AbstractContextManager:
    """A line that moves on a terminal; nothing elsewhere."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    return console.status(Text(printable(for_what))) if console.is_terminal else nullcontext()


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
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    if not console.is_terminal:
        yield elsewhere
        return
    with console.status(Text(printable(first))) as status:
        yield lambda stage: status.update(Text(printable(stage)))
