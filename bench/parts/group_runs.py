# SPDX-License-Identifier: Apache-2.0
"""What benches of several processes have in common: the model, and a program in each process."""

import json
import subprocess
import sys
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
