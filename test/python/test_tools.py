# SPDX-License-Identifier: Apache-2.0
"""Tools that run as processes of their own: what they print, and that none is left behind."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from mebp import tools
from mebp.errors import Error
from mebp.training.interrupts import ended_by_signals

SLEEPS = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]


def test_what_it_prints_comes_line_by_line():
    lines = []
    written = tools.watch_tool(["sh", "-c", "echo one; echo two; echo note >&2"], lines.append)
    assert (lines, written) == (["one", "two"], ["note"])


def test_a_failure_is_its_last_line():
    with pytest.raises(Error, match="^why$"):
        tools.watch_tool(["sh", "-c", "echo first >&2; echo why >&2; exit 2"], print)


@pytest.fixture
def started(monkeypatch):
    """Of the processes that are started: their numbers, and what happens while Popen has not given the last one yet."""
    seen = SimpleNamespace(processes=[], then=lambda: None)

    class Watching(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            seen.processes.append(self.pid)
            seen.then()

    monkeypatch.setattr(tools.subprocess, "Popen", Watching)
    return seen


def check_ended(process):
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_an_error_of_who_reads_ends_it(started):
    def refuse(line):
        raise Error(line)

    with pytest.raises(Error, match="^ready$"):
        tools.watch_tool(SLEEPS, refuse)
    check_ended(*started.processes)


ENDINGS = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit), (signal.SIGHUP, SystemExit)]


@pytest.mark.parametrize(("number", "ending"), ENDINGS)
def test_a_signal_while_it_starts_ends_it(started, number, ending):
    started.then = lambda: signal.raise_signal(number)
    with pytest.raises(ending), ended_by_signals():
        tools.watch_tool(SLEEPS, print)
    check_ended(*started.processes)
