# SPDX-License-Identifier: Apache-2.0
"""Tries model types in a process of its own, which a type may hang or crash."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection

from mebp.models import ModelType

_SECONDS = 300  # for one type: only what hangs takes so long, on however busy a machine


def serve(connection: Connection, variants: bool = False) -> None:
    """Tries each type that comes, and sends what came of it."""
    from parts.models.attempt import attempt

    connection.send(None)
    while True:
        connection.send(attempt(connection.recv(), variants))


class Worker:
    """A process that tries one type after another; one that hangs or crashes is replaced."""

    def __init__(self, target: Callable[[Connection], None] = serve, seconds: float = _SECONDS) -> None:
        self.seconds = seconds
        self._target = target
        self._process: multiprocessing.Process | None = None

    def attempt(self, model_type: str) -> ModelType:
        if self._process is None:
            self._start()
        self._connection.send(model_type)
        try:
            if self._connection.poll(self.seconds):
                return self._connection.recv()
            outcome = ModelType(model_type, "untried", f"it was not done after {self.seconds} s")
        except EOFError:
            self._process.join()
            outcome = ModelType(model_type, "failed", f"its process ended with status {self._process.exitcode}")
        self.stop()
        return outcome

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=self._target, args=(other,), daemon=True)
        self._process.start()
        other.close()
        self._connection.recv()  # it has imported what it needs
