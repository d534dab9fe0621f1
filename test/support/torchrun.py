# SPDX-License-Identifier: Apache-2.0
"""Runs in several processes, which torchrun starts."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

EXACT = ["--weights", "f32", "--precision", "f32", "--seq-len", "32", "--lr", "1e-2"]


def start(processes: int, *program: object, restarts: int = 0, meeting: int = 0) -> subprocess.Popen:
    """`meeting`: the port at which it finds another one like it; 0: it is alone."""
    agent = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    agent += ["--max-restarts", str(restarts)]
    alike = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-id", "tiny", "--rdzv-endpoint", f"127.0.0.1:{meeting}"]
    agent += [*alike, "--local-addr", "127.0.0.1"] if meeting else ["--standalone"]
    return subprocess.Popen([*agent, *map(str, program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def torchrun(processes: int, *program: object) -> tuple[int, str, str]:
    agent = start(processes, *program)
    out, err = agent.communicate(timeout=300)
    return agent.returncode, out, err


def own_lines(err: str) -> list[str]:
    """What mebp writes of a failure; torchrun's report is around it."""
    return [line for line in err.splitlines() if line.startswith("mebp:")]


def training(model: Path, data: Path, out: Path, *options: object, steps: int = 7) -> list[object]:
    return ["train", model, "--data", data, *EXACT, "--steps", steps, "--adapter-out", out, *options]


def expect_same_adapters(one: Path, other: Path) -> None:
    expected, found = (load_file(folder / "adapter_model.safetensors") for folder in (one, other))
    assert expected.keys() == found.keys()
    for key, values in expected.items():
        np.testing.assert_array_equal(found[key], values, err_msg=key)


def slow_program(folder: Path, given: list[object], first: str = "") -> Path:
    """Says which process each rank is and how it ends, and makes steps of a tenth of a second. first: what it does
    before."""
    program = folder / "program.py"
    program.write_text(f"""import os, signal, sys, time
from pathlib import Path
import mebp.training.objectives.base as base
from mebp.cli import main

folder, rank, restart = Path({str(folder)!r}), os.environ["RANK"], os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)
(folder / f"pid{{rank}}").write_text(str(os.getpid()))
{first}

class Slow(base.GlobalBatch):
    def step(self, *arguments):
        time.sleep(0.1)
        return super().step(*arguments)

base.GlobalBatch = Slow
status = main({[str(each) for each in given]!r})
(folder / f"status{{rank}}-{{restart}}").write_text(str(status))
sys.exit(status)
""")
    return program


def wait_for_steps(log: Path, steps: int, agent: subprocess.Popen) -> None:
    until = time.monotonic() + 120
    while not (log.exists() and log.read_text().count("\n") >= steps):
        assert time.monotonic() < until and agent.poll() is None, agent.communicate()
        time.sleep(0.05)
