# SPDX-License-Identifier: Apache-2.0
"""bench/parts/models/worker.py: a type that misbehaves costs itself, and no other."""

import os
import time
from multiprocessing.connection import Connection

from parts.models.worker import Worker

from mebp.models import ModelType


def misbehave(connection: Connection) -> None:
    """Serves as the worker's own does, but for what a name asks for."""
    connection.send(None)
    while True:
        name = connection.recv()
        if name == "hang":
            time.sleep(600)
        if name == "crash":
            os._exit(3)
        connection.send(ModelType(name, "exact"))


def test_a_type_that_hangs_or_crashes_is_said_and_the_next_one_tried():
    worker = Worker(misbehave)
    try:
        assert worker.attempt("a") == ModelType("a", "exact")
        worker.seconds = 0.5
        assert worker.attempt("hang") == ModelType("hang", "untried", "it was not done after 0.5 s")
        worker.seconds = 60
        assert worker.attempt("crash") == ModelType("crash", "failed", "its process ended with status 3")
        assert worker.attempt("b") == ModelType("b", "exact")
    finally:
        worker.stop()
