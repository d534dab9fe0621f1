# SPDX-License-Identifier: Apache-2.0
"""What `mebp export` does for commands that tests call in this process: in a fork of it, which has torch and
transformers already. To import them takes longer than a tiny model's export. Commands of their own export as users'."""

import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

import mebp.building
import mebp.merging.compiling
from mebp import tools
from mebp.cli import main
from mebp.errors import Error

_LONGEST = 300.0  # seconds
_EXPORT = tools.python_module("mebp", "export")


def _hub_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("HF_")}


_READ = _hub_settings()  # when it was imported


def fork_exports() -> None:
    mebp.building.watch_tool = _watch_tool
    mebp.merging.compiling.run_tool = _run_tool


def _run_tool(command: Sequence[str]) -> str:
    lines: list[str] = []
    _watch_tool(command, lines.append)
    return "".join(f"{line}\n" for line in lines)


def _watch_tool(command: Sequence[str], each_line: Callable[[str], None]) -> list[str]:
    if command[: len(_EXPORT)] != _EXPORT or _hub_settings() != _READ:
        return tools.watch_tool(command, each_line)
    with tempfile.TemporaryFile("w+") as errors:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _become(command[len(_EXPORT) - 1 :], writing, errors.fileno())
        os.close(writing)
        # A lock that another thread held when it was forked is held for ever.
        overdue = threading.Timer(_LONGEST, os.kill, (child, signal.SIGKILL))
        overdue.start()
        try:
            with open(reading) as output:
                for line in output:
                    each_line(line.rstrip("\n"))
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            overdue.cancel()
        errors.seek(0)
        written = errors.read()
    if status != 0:
        raise Error(tools.last_line(written, command, status))
    return written.strip().splitlines()


def _become(arguments: Sequence[str], output: int, errors: int) -> NoReturn:
    status = 1
    try:
        for source, target in ((output, 1), (errors, 2)):
            os.dup2(source, target)
        sys.stdout, sys.stderr = os.fdopen(1, "w", 1), os.fdopen(2, "w", 1)  # pytest has put its own there
        status = main(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
