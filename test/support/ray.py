# SPDX-License-Identifier: Apache-2.0
"""Programs that call mebp.ray.fit, each with a Ray of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HEAD = """import os, sys, time
from pathlib import Path
import ray
import mebp.ray
from mebp import Error

EXACT = dict(weights="f32", precision="f32", seq_len=32, lr=1e-2)
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

def begin(cpus, change=None):
    hook = {"worker_process_setup_hook": change} if change else {}
    ray.init("local", num_cpus=cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
             runtime_env=hook)

def fit(model, data, **options):
    run = mebp.ray.fit(model, data, **EXACT, **options)
    print(f"fit: {run}")
    return run

"""


@contextmanager
def started(folder: Path, program: str) -> Iterator[subprocess.Popen]:
    """In the folder, in a process group of its own. Ray's files go to another one, for sockets have short names."""
    (folder / "program.py").write_text(_HEAD + program)
    scratch = tempfile.mkdtemp(prefix="ray-")
    try:
        with subprocess.Popen(
            [sys.executable, "program.py"],
            cwd=folder,
            env={**os.environ, "RAY_TMPDIR": scratch, "HOME": scratch, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run(folder: Path, program: str) -> tuple[int, str, str]:
    with started(folder, program) as process:
        out, err = process.communicate(timeout=500)
        return process.returncode, out, err
