# SPDX-License-Identifier: Apache-2.0
"""Ranks that are killed with -9 at random moments: torchrun starts all again, and the run has the bits of one that was
left alone. `make test` kills two of them, `make soak` (MEBP_SOAK) 20, and trains SmolLM2 on 1, 2 and 4 processes."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import mebp as command
from support.soak import SOAK
from support.torchrun import expect_same_adapters, slow_program, start, training, wait_for_steps

pytestmark = pytest.mark.usefixtures("one_cache")
PROCESSES = 2
KILLS = 20 if SOAK else 2
LONGEST = 1.5  # seconds from a step after one kill to the next
CONVERSATIONS = Path(__file__).resolve().parents[2] / "examples" / "brindle_rock.jsonl"


def wait_for(happens: Callable[[], bool], agent: subprocess.Popen) -> None:
    until = time.monotonic() + 120
    while not happens():
        assert time.monotonic() < until and agent.poll() is None, agent.communicate()
        time.sleep(0.01)


def test_killed_ranks_change_no_bit(lamp_model, lamp_data, tmp_path, show):
    steps = int(10 * LONGEST * (KILLS + 1))
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance, options = random.Random(seed), ["--global-batch", 4, "--save-every", 1]
    alone = command(*training(lamp_model, lamp_data, tmp_path / "1", *options, steps=steps))
    assert alone.returncode == 0, alone.stderr
    more = ["--state", tmp_path / "state", "--resume"]
    writes_steps = """
class Writing(base.GlobalBatch):
    def step(self, *arguments):
        result = super().step(*arguments)
        with (folder / f"steps{rank}-{restart}").open("a") as file:
            file.write(f"{time.monotonic()}\\n")
        return result
base.GlobalBatch = Writing
"""
    program = slow_program(tmp_path, training(lamp_model, lamp_data, tmp_path / "out", *options, *more, steps=steps),
                           writes_steps)  # fmt: skip
    agent = start(PROCESSES, program, restarts=KILLS)
    took, killed_at = [], 0.0
    for kill in range(KILLS + 1):
        first_steps = tmp_path / f"steps0-{kill}"
        wait_for(lambda path=first_steps: path.exists() and "\n" in path.read_text(), agent)
        if kill:
            took.append(float(first_steps.read_text().split()[0]) - killed_at)
        if kill < KILLS:
            time.sleep(chance.uniform(0, LONGEST))
            killed_at = time.monotonic()
            os.kill(int((tmp_path / f"pid{chance.randrange(PROCESSES)}").read_text()), signal.SIGKILL)
    out, err = agent.communicate(timeout=600)
    assert agent.returncode == 0, out + err
    expect_same_adapters(tmp_path / "1", tmp_path / "out")
    show(f"{PROCESSES} processes, one killed {KILLS} times: bitwise equal; seconds from a kill to the next step: "
         f"{', '.join(f'{each:.1f}' for each in sorted(took))}")  # fmt: skip


@pytest.mark.skipif(not SOAK, reason="takes minutes: MEBP_SOAK")
def test_smollm2_has_the_same_bits_on_1_2_and_4(tmp_path, show):
    """Also where 4 are killed after a third of the steps, and the 2 that go on after another; 1 goes on to the end."""
    steps = 20
    show(f"SmolLM2-135M, --global-batch 4, {steps} steps:")

    def run(out: str, *options: object) -> list[object]:
        return ["train", "packaged:smollm2", "--data", CONVERSATIONS, "--seq-len", 64, "--steps", steps,
                "--global-batch", 4, "--adapter-out", tmp_path / out, *options]  # fmt: skip

    ways = [(1, "none"), *((processes, shard) for shard in ("none", "optimizer", "weights") for processes in (2, 4))]
    for processes, shard in ways:
        name = f"{processes}-{shard}"
        program, began = slow_program(tmp_path, run(name, "--shard", shard)), time.monotonic()
        agent = start(processes, program)
        out, err = agent.communicate(timeout=900)
        assert agent.returncode == 0, out + err
        expect_same_adapters(tmp_path / "1-none", tmp_path / name)
        show(f"  {processes} under torchrun, --shard {shard}: bitwise equal, {time.monotonic() - began:.0f} s")
    log = tmp_path / "log.jsonl"
    more = "--state", tmp_path / "state", "--resume", "--save-every", 1, "--log", log
    for processes, until, shard in ((4, steps // 3, "weights"), (2, 2 * steps // 3, "optimizer")):
        agent = start(processes, slow_program(tmp_path, run("killed", "--shard", shard, *more)))
        wait_for_steps(log, until, agent)
        killed = int((tmp_path / f"pid{processes - 1}").read_text())
        os.kill(killed, signal.SIGKILL)
        assert agent.wait(120) != 0
        agent.communicate()
        done_steps = log.read_text().count("\n")
        show(f"  rank {processes - 1} of {processes} with --shard {shard} killed after step {done_steps}")
    done = command(*run("killed", *more))
    assert done.returncode == 0, done.stdout + done.stderr
    expect_same_adapters(tmp_path / "1-none", tmp_path / "killed")
    show("  1 without torchrun went on to the end: bitwise equal")
