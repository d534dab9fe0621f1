# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C: the first one asks a run to stop where it can be continued, the second ends the process."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupts:
    """`pressed` is true once Ctrl-C was."""

    def __init__(self) -> None:
        self.pressed = False

    def handle(self, number: int, frame: object) -> None:
        self.pressed = True
        signal.signal(number, signal.default_int_handler)


@contextmanager
def watched() -> Iterator[Interrupts]:
    """A step is never cut in two: the first Ctrl-C is seen when it ends. It is the main thread's to see."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    previous = signal.signal(signal.SIGINT, interrupts.handle)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, previous)
