# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and SIGHUP: the first asks a run to stop where it can be continued, the second ends the process.
SIGUSR1 or SIGUSR2, where it is asked for, makes it wait."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mebp.errors import Error

PAUSING = ("SIGUSR1", "SIGUSR2")
_PATIENCE = 0.1  # seconds

_DEFAULTS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


class Interrupts:
    """`signal` is the number of the one that came, if one did."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @property
    def pressed(self) -> bool:
        return self.signal is not None

    def handle(self, number: int, frame: object) -> None:
        self.signal = number
        signal.signal(number, _DEFAULTS[number])


@contextmanager
def watched() -> Iterator[Interrupts]:
    """A step is never cut in two: a signal is seen when it ends. Signals are the main thread's to see."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    previous = {number: signal.getsignal(number) for number in _DEFAULTS}
    for number, handler in previous.items():
        if number != signal.SIGHUP or handler != signal.SIG_IGN:  # nohup means it
            signal.signal(number, interrupts.handle)
    try:
        yield interrupts
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def answer(number: int | None, told: str) -> None:
    """Lets the signal that stopped a run take its course, once all is saved: Ctrl-C raises KeyboardInterrupt with what
    is `told`. Nothing where there was none."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt(told)
    if number is not None:
        signal.raise_signal(number)


class Pauses:
    """A signal that asks a run to give its memory back, and, or SIGCONT, to go on."""

    def __init__(self) -> None:
        self.is_asked = False
        self._is_waiting = False

    def handle(self, number: int, frame: object) -> None:
        if self._is_waiting:
            self._is_waiting = False
        elif number != signal.SIGCONT:
            self.is_asked = True

    def begin(self) -> None:
        """From here on the next signal means to go on, however long the run takes to stop."""
        self._is_waiting = True
        self.is_asked = False

    def wait(self, until: Callable[[], bool]) -> None:
        """Until the run may go on, or `until()` is true."""
        # A signal may reach another thread, so that no call in this one is cut short by it.
        while self._is_waiting and not until():
            time.sleep(_PATIENCE)
        self._is_waiting = False


@contextmanager
def pausing(name: str | None) -> Iterator[Pauses]:
    """Listens for the signal `name`, such as SIGUSR1; for none where that is None."""
    pauses = Pauses()
    if name is None:
        yield pauses
        return
    if threading.current_thread() is not threading.main_thread():
        raise Error(f"pause_on {name}: signals are the main thread's to see; train in it, or leave it out")
    numbers = (signal.Signals[name], signal.SIGCONT)
    previous = {number: signal.signal(number, pauses.handle) for number in numbers}
    try:
        yield pauses
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise SystemExit, as Ctrl-C raises KeyboardInterrupt, so that nothing stays half-made."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    is_main = threading.current_thread() is threading.main_thread()
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if is_main]
    taken = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
