# SPDX-License-Identifier: Apache-2.0
"""Runs in several processes, which torchrun starts."""

import subprocess
import sys
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
