# SPDX-License-Identifier: Apache-2.0
"""Runs in several processes, which torchrun starts."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from support.commands import mebp as command

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
    """Exact, but for what `options` say otherwise. An adapter goes to `out`, or a model that is trained whole."""
    pairs = zip(EXACT[::2], EXACT[1::2], strict=True)
    exact = [each for name, value in pairs if name not in options for each in (name, value)]
    kept = "--model-out" if "full" in options else "--adapter-out"
    return ["train", model, "--data", data, *exact, "--steps", steps, kept, out, *options]


def expect_same_adapters(one: Path, other: Path) -> None:
    """Or models, where these were trained."""
    expected, found = ({path.name: load_file(path) for path in folder.glob("*.safetensors")} for folder in (one, other))
    assert expected and expected.keys() == found.keys()
    for name, tensors in expected.items():
        assert tensors.keys() == found[name].keys()
        for key, values in tensors.items():
            np.testing.assert_array_equal(found[name][key], values, err_msg=key)


def records(log: Path, *but: str) -> list[dict]:
    """What each step has of its own, but for its time and its process's memory."""
    left_out = ("seconds", "imbalance", "bytes", "per_second", "elapsed", *but)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [{name: of for name, of in line.items() if not any(each in name for each in left_out)} for line in lines]


def expect_the_bits_of_one(
    model: Path, data: Path, folder: Path, *options: object, by: str, steps: int, but: Sequence[str] = ()
) -> None:
    """`by`: numbers of processes. `but`: what of a record is equal but for rounding."""

    def train(name: str) -> list[object]:
        log = folder / f"{name}.jsonl"
        return training(model, data, folder / name, "--global-batch", 4, "--log", log, *options, steps=steps)

    alone = command(*train("1"))
    assert alone.returncode == 0, alone.stderr
    for processes in by:
        status, out, err = torchrun(int(processes), "-m", "--", "mebp", *train(processes))
        assert status == 0, err
        assert out.splitlines()[0] == f"{processes} processes, --global-batch 4: the same bits as in one"
        expect_same_adapters(folder / "1", folder / processes)
        assert records(folder / f"{processes}.jsonl", *but) == records(folder / "1.jsonl", *but)


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
