# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and SIGHUP: the first asks a run to stop where it can be continued, the second ends the process."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
