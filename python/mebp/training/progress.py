# SPDX-License-Identifier: Apache-2.0
"""How a run is shown: a progress bar on a terminal, plain lines elsewhere, or not at all."""

import errno
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import MappingProxyType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from mebp.errors import Error, reason
from mebp.training.log import Record
from mebp.words import is_terminal, printable

_PLAIN_LINES = 50  # about so many, however long the run
_WIDE = 116  # columns; a narrower terminal has no room for every word
_BAR_WIDTHS = 8, 22
_AROUND = 16  # spaces between columns, and "00:00:00 left"
NOTHING: Mapping[str, str] = MappingProxyType({})


class _Console(Console):
    """Where it cannot be written, it says so once, as an mebp.Error: a run ends by that, but saves before."""

    def print(self, *objects: object, **options: object) -> None:
        try:
            super().print(*objects, **options)
        except OSError as error:
            self.quiet = True
            what = f"standard output: cannot be written ({reason(error)})"
            raise Error(f"{what}, so the run ends here; let it go to a file with room") from error

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))  # rich would end the process


class Reporter(Protocol):
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...

    def say(self, line: str) -> None:
        """Shows a line that stays."""

    def busy(self, what: str) -> AbstractContextManager[None]:
        """While something that is not a step takes its time."""

    def step(self, record: Record, seen: int) -> None:
        """A step has been made, with `seen` tokens, those included whose labels do not count."""


def make_reporter(total: int, planned_bytes: int, shown: bool, watched: Mapping[str, str] = NOTHING) -> Reporter:
    """watched: metrics that a step shows beside its loss, by their words."""
    if not shown:
        return SilentReporter()
    terminal = None if is_terminal(sys.stdout) else False
    # In a notebook rich would make a display of its own of each line.
    console = _Console(highlight=False, soft_wrap=True, force_terminal=terminal, force_jupyter=False)
    kind = BarReporter if console.is_terminal else LineReporter
    return kind(console, total, planned_bytes, watched)


def _learned(record: Record, watched: Mapping[str, str]) -> list[str]:
    """How it goes: what is worth showing first."""
    metrics = [f"{word} {record.metrics[name]:.3g}" for word, name in watched.items() if name in record.metrics]
    return [f"loss {record.loss:.4f}", *metrics, f"lr {record.lr:.3g}"]


def _speed(record: Record, seen: int) -> str:
    return f"{seen / max(record.seconds, 1e-9):,.0f} tokens/s"


def _memory(record: Record, planned_bytes: int) -> str:
    # The highest so far. The plan is exact for the runtime; what Python holds beside it grows a little over a run.
    return f"{record.peak_bytes / 1e6:.0f} of ~{planned_bytes / 1e6:.0f} MB"


class SilentReporter:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def say(self, line: str) -> None:
        pass

    def busy(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    def step(self, record: Record, seen: int) -> None:
        pass


class BarReporter:
    def __init__(self, console: Console, total: int, planned_bytes: int, watched: Mapping[str, str] = NOTHING) -> None:
        self._planned_bytes, self._watched = planned_bytes, watched
        wide = console.width >= _WIDE and not watched
        self._room = console.width - _BAR_WIDTHS[wide] - len(f"step {total}/{total}") - _AROUND
        self._bar = Progress(
            TextColumn("step {task.completed}/{task.total}"),
            BarColumn(bar_width=_BAR_WIDTHS[wide]),
            TextColumn("{task.fields[text]}", markup=False),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
        )
        self._task = self._bar.add_task("train", total=total, text="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(Error):  # a terminal that is gone
            self._bar.stop()

    def say(self, line: str) -> None:
        self._bar.console.print(printable(line), markup=False)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        shown = self._bar.tasks[self._task].fields["text"]
        self._bar.update(self._task, text=printable(what))
        yield
        self._bar.update(self._task, text=shown)

    def step(self, record: Record, seen: int) -> None:
        learned, memory = _learned(record, self._watched), _memory(record, self._planned_bytes)
        speed = _speed(record, seen)
        forms = [[*learned, speed, f"{memory} planned"], [*learned, speed, memory], [*learned, memory], learned]
        texts = list(map("  ".join, forms))
        text = next((text for text in texts if len(text) <= self._room), texts[-1])
        self._bar.update(self._task, completed=record.step, text=text)


class LineReporter:
    def __init__(self, console: Console, total: int, planned_bytes: int, watched: Mapping[str, str] = NOTHING) -> None:
        self._console, self._total, self._planned_bytes = console, total, planned_bytes
        self._watched = watched
        self._every = -(-total // _PLAIN_LINES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def say(self, line: str) -> None:
        self._console.print(printable(line), markup=False)

    def busy(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    def step(self, record: Record, seen: int) -> None:
        if record.step == 1 or record.step % self._every == 0 or record.step == self._total:
            memory = _memory(record, self._planned_bytes)
            figures = "  ".join([*_learned(record, self._watched), _speed(record, seen)])
            self.say(f"step {record.step}/{self._total}  {figures}  memory {memory} planned")
