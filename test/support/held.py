# SPDX-License-Identifier: Apache-2.0
"""Child processes that hold their memory until parts/process_memory.py has looked at it, however slow the machine."""

import os
from pathlib import Path

import pytest
from parts import process_memory

# The end of a child's program: it waits at the pipe that its last argument names.
HOLD = "\nimport sys; open(sys.argv[-1]).read()\n"


@pytest.fixture
def pipe(tmp_path, monkeypatch) -> Path:
    """For HOLD."""
    path, look = tmp_path / "pipe", process_memory.memory_of
    os.mkfifo(path)

    def look_and_let_go(process: int) -> process_memory.Memory:
        try:
            end = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody waits at the other end
            return look(process)
        try:
            return look(process)
        finally:
            os.close(end)

    monkeypatch.setattr(process_memory, "memory_of", look_and_let_go)
    return path
