# SPDX-License-Identifier: Apache-2.0
"""The `mebp` command, called as a user calls it."""

import subprocess
import sys

MEBP = [sys.executable, "-m", "mebp"]


def mebp(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([*MEBP, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)


def refusal(*arguments: object) -> str:
    """The one line on standard error of a command that ends with status 2."""
    run = mebp(*arguments)
    assert run.returncode == 2, (run.stdout, run.stderr)
    lines = run.stderr.splitlines()
    assert len(lines) == 1 and "Traceback" not in lines[0], run.stderr
    return lines[0]
