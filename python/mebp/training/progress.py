# SPDX-License-Identifier: Apache-2.0
"""How a run is shown: a progress bar on a terminal, plain lines elsewhere."""

from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from mebp.training.log import Record

_PLAIN_LINES = 50  # about so many, however long the run


class Reporter(Protocol):
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...
    def say(self, line: str) -> None: ...
    def step(self, record: Record) -> None: ...


def make_reporter(total: int, planned_bytes: int) -> Reporter:
    console = Console(highlight=False, soft_wrap=True)
    kind = BarReporter if console.is_terminal else LineReporter
    return kind(console, total, planned_bytes)


def describe(record: Record, planned_bytes: int) -> str:
    """Loss, speed, and the highest memory so far against what was planned for this process."""
    speed = record.tokens / record.seconds if record.seconds > 0 else 0.0
    return (
        f"loss {record.loss:.4f}  {speed:,.0f} tokens/s  "
        f"memory {record.peak_bytes / 1e6:.0f} of {planned_bytes / 1e6:.0f} MB planned"
    )


class BarReporter:
    def __init__(self, console: Console, total: int, planned_bytes: int) -> None:
        self._planned_bytes = planned_bytes
        self._bar = Progress(
            TextColumn("step {task.completed}/{task.total}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(compact=True),
            console=console,
        )
        self._task = self._bar.add_task("train", total=total, text="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        self._bar.console.print(line, markup=False)

    def step(self, record: Record) -> None:
        self._bar.update(self._task, completed=record.step, text=describe(record, self._planned_bytes))


class LineReporter:
    def __init__(self, console: Console, total: int, planned_bytes: int) -> None:
        self._console, self._total, self._planned_bytes = console, total, planned_bytes
        self._every = -(-total // _PLAIN_LINES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def say(self, line: str) -> None:
        self._console.print(line, markup=False)

    def step(self, record: Record) -> None:
        if record.step == 1 or record.step % self._every == 0 or record.step == self._total:
            self.say(f"step {record.step}/{self._total}  {describe(record, self._planned_bytes)}")
