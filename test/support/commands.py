# SPDX-License-Identifier: Apache-2.0
"""The `mebp` command, called as a user calls it."""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mebp.cli import main

MEBP = [sys.executable, "-m", "mebp"]
TIMEOUT = 600  # seconds; only what hangs takes so long, on however busy a machine


def command_line(*arguments: object) -> list[str]:
    return [*MEBP, *map(str, arguments)]


def mebp(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run(command_line(*arguments), capture_output=True, text=True, timeout=TIMEOUT, check=False)


def refusal(*arguments: object) -> str:
    """The one line on standard error of a command that ends with status 2."""
    run = mebp(*arguments)
    assert run.returncode == 2, (run.stdout, run.stderr)
    lines = run.stderr.splitlines()
    assert len(lines) == 1 and "Traceback" not in lines[0], run.stderr
    return lines[0]


def refusal_in_process(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    """The same without a process of its own, and without a word on standard output."""
    assert main([*map(str, arguments)]) == 2
    found = capsys.readouterr()
    assert not found.out and len(found.err.splitlines()) == 1, found
    return found.err


def refused_export(capsys: pytest.CaptureFixture, folder: Path, fields: dict, task: str) -> str:
    """What `mebp export --task` says of a model with this config.json, of which nothing is left behind."""
    source, onnx = folder / "source", folder / "out" / "model.onnx"
    source.mkdir()
    (source / "config.json").write_text(json.dumps(fields))
    told = refusal_in_process(capsys, "export", source, "-o", onnx, "--task", task, "--shape-only", "--seq-len", 16)
    assert not onnx.exists()
    return told


def bundle_of(said: str) -> Path:
    """That a run of `mebp train MODEL` has said it made."""
    return Path(re.findall(r"^(\S+\.mebp): the bundle", said, re.MULTILINE)[0].replace("~", str(Path.home())))


@contextmanager
def running(*arguments: object, until: Callable[[int], bool]) -> Iterator[subprocess.Popen]:
    """`mebp ARGUMENTS` in a process of its own from the moment that `until` says so of its number; killed in the end.

    What it prints lies in the process' `stdout` and `stderr`, which are files.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command_line(*arguments), stdout=output, stderr=errors, text=True)
        process.stdout, process.stderr = output, errors
        try:
            deadline = time.monotonic() + TIMEOUT
            while not until(process.pid):
                assert process.poll() is None and time.monotonic() < deadline, printed(errors)
                time.sleep(0.01)
            yield process
        finally:
            process.kill()
            process.wait()


def printed(file) -> str:
    file.seek(0)
    return file.read()


def has_lines(log: Path, count: int) -> Callable[[int], bool]:
    """For `running`: whether the log has that many lines."""
    return lambda _: log.exists() and log.read_text().count("\n") >= count
