# SPDX-License-Identifier: Apache-2.0
"""A session and its process: a fork, an exit in the midst of a step, a system that has no memory left."""

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mebp.tools import find_tool
from support.commands import TIMEOUT

# A child that inherits a session, refuses to use it, makes its own, and ends.
_FORKED = """
import os, sys
import mebp
ids = [list(range(60, 92))]
session = mebp.Session(sys.argv[1])
loss = session.loss(ids, ids)
child = os.fork()
if child == 0:
    try:
        session.step(ids, ids)
    except mebp.Error as error:
        print(error, flush=True)
    assert mebp.Session(sys.argv[1]).loss(ids, ids) == loss
    del session
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert session.loss(ids, ids) == loss
print(os.getpid())
"""

_EXITING = """
import sys, threading
import mebp
ids = [list(range(60, 92))]
session, begun = mebp.Session(sys.argv[1], threads=1), threading.Event()
def go_on():
    while True:
        session.step(ids, ids)
        begun.set()
threading.Thread(target=go_on, daemon=True).start()
begun.wait()
"""


def run(program: str, bundle: Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", program, str(bundle)], capture_output=True, text=True, timeout=TIMEOUT)


def test_a_forked_process_is_refused_and_ends(bundle):
    done = run(_FORKED, bundle)
    assert done.returncode == 0, done.stderr
    refusal, process = done.stdout.splitlines()
    assert refusal == (
        f"this session belongs to process {process}, and a forked process has none of its threads; make a session "
        "there, or start processes by 'spawn'"
    )


@pytest.mark.parametrize("attempt", range(5))  # it is a matter of moments
def test_an_exit_waits_for_the_step_that_a_thread_is_in(bundle, attempt):
    done = run(_EXITING, bundle)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def run_within(kilobytes: int, *command: object) -> subprocess.CompletedProcess:
    """With so much address space."""
    line = f"ulimit -v {kilobytes}; exec {shlex.join(map(str, command))}"
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=TIMEOUT, check=False)


def test_memory_that_the_system_refuses_is_one_line(bundle, tmp_path):
    np.save(tmp_path / "tokens.npy", np.arange(64, dtype=np.int32).reshape(2, 32))
    tool = find_tool("mebp-run")
    # Below that, the program itself cannot be loaded.
    least = next(size for size in range(4000, 400000, 100) if run_within(size, tool, "--version").returncode == 0)
    said = set()
    for size in range(least, 400000, 200):
        folder = tmp_path / str(size)
        done = run_within(size, tool, bundle, "--tokens", tmp_path / "tokens.npy", "--steps", 2, "--threads", 1,
                          "--state", folder / "state", "--adapter-out", folder / "adapter")  # fmt: skip
        if done.returncode == 0:
            break
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, (size, done)
        assert not (folder / "adapter").exists()
        said.add(done.stderr)
    assert done.returncode == 0 and len(said) > 1, said
