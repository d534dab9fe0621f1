# SPDX-License-Identifier: Apache-2.0
"""What benches of several processes have in common: the model, a program in each process, and how ratios are told."""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import mebp

LENGTH = 256


def smollm2(folder: Path, **options: object) -> Path:
    """The bundle of SmolLM2-135M for steps over several micro-batches."""
    mebp.export("packaged:smollm2", folder / "model.onnx", seq_len=LENGTH)
    mebp.compile(folder / "model.onnx", folder / "model.mebp", accumulate=True, **options)
    return folder / "model.mebp"


def run(processes: int, *program: object) -> str:
    """What `program`, arguments of Python's, prints in so many processes. Ends with what it says where it fails."""
    agent = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes] if processes > 1 else []
    command = [sys.executable, *map(str, [*agent, *program])]
    said = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    if said.returncode:
        raise SystemExit(said.stderr)
    return said.stdout


def run_for_json(processes: int, *program: object) -> dict:
    """The last line of it, which rank 0 prints."""
    return json.loads(run(processes, *program).splitlines()[-1])


def median_and_range(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
