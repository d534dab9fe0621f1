# SPDX-License-Identifier: Apache-2.0
"""A process that loads once and then makes a step whenever it is told to, so that contenders can go in turns."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from parts.process_memory import AnonymousPeak

from mebp.tools import last_line

BENCH = Path(__file__).resolve().parents[2]
Step = Callable[[], dict | None]


def serve(step: Step) -> None:
    """The process's side: a step for each line of standard input, until that ends. Answers with seconds, and with what
    else `step` returns."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # whatever else is printed is no answer
        print("{}", file=answers, flush=True)
        for _ in sys.stdin:
            start = time.perf_counter()
            other = step() or {}
            print(json.dumps({"seconds": time.perf_counter() - start} | other), file=answers, flush=True)


@contextlib.contextmanager
def contender(command: list[str]) -> Iterator[Callable[[], dict]]:
    """Starts `command`, which calls serve, and waits until it has loaded; it sleeps but for its steps.

    The block's value makes a step: it returns the answer, and in `peak_bytes` the most anonymous memory that the
    process was seen with so far. Raises RuntimeError with the process's last line of errors where it has ended.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    found = [str(BENCH), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(found)}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stderr=errors, text=True, env=environment, **pipes) as process,
    ):
        highest = 0

        def answer() -> dict:
            nonlocal highest
            with AnonymousPeak(process.pid) as peak:
                line = process.stdout.readline()
            highest = max(highest, peak.bytes)
            if not line:
                status = process.wait()
                errors.seek(0)
                raise RuntimeError(last_line(errors.read(), command, status))
            return json.loads(line)

        def step() -> dict:
            with contextlib.suppress(BrokenPipeError):  # the answer that does not come says why
                os.write(process.stdin.fileno(), b"step\n")
            return answer() | {"peak_bytes": highest}

        answer()
        yield step
