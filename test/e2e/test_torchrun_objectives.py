# SPDX-License-Identifier: Apache-2.0
"""Preferences and rewards in several processes, which torchrun starts, have the bits of one."""

import re

import pytest

from support.commands import mebp as command
from support.torchrun import expect_same_adapters, expect_the_bits_of_one, start, torchrun, training

pytestmark = pytest.mark.usefixtures("one_cache")


@pytest.mark.parametrize(
    ("by", "options"),
    [
        ("24", ["--objective", "dpo", "--clip", "0.5"]),
        ("4", ["--objective", "dpo", "--loss-type", "aot"]),
        ("2", ["--objective", "dpo", "--batch", "4", "--optimizer", "adamw8bit"]),
        ("24", ["--objective", "orpo"]),
    ],
    ids=["dpo", "a loss of all pairs", "two pairs side by side", "orpo"],
)
def test_pairs(lamp_model, lamp_pairs, tmp_path, by, options):
    expect_the_bits_of_one(lamp_model, lamp_pairs, tmp_path, *options, by=by, steps=5)


def test_the_reference_is_what_rank_0_begins_with(lamp_model, lamp_pairs, tmp_path):
    """Others do not get the adapter's folder."""
    first = command(*training(lamp_model, lamp_pairs, tmp_path / "first", "--objective", "dpo", steps=2))
    assert first.returncode == 0, first.stderr
    options = "--objective", "dpo", "--adapter", tmp_path / "first"
    expect_the_bits_of_one(lamp_model, lamp_pairs, tmp_path, *options, by="2", steps=3)


ROLLED_OUT = "--max-completion", "8", "--temperature", "0.8"


@pytest.mark.parametrize(
    ("by", "options"),
    [
        ("24", ["--objective", "grpo", "--group", "3", "--beta", "0.1", "--scale-rewards", "batch"]),
        ("4", ["--objective", "grpo", "--group", "2", "--num-iterations", "2", "--top-entropy-quantile", "0.5"]),
        ("24", ["--objective", "ppo"]),
        ("2", ["--objective", "ppo", "--value-model", "own", "--num-mini-batches", "2", "--num-ppo-epochs", "1"]),
    ],
    ids=["grpo", "grpo, two updates", "ppo", "ppo, the value's own adapter"],
)
def test_rollouts(lamp_model, lamp_prompts, tmp_path, by, options):
    reward = "--reward", f"{tmp_path / 'rewards.py'}:high"
    options = *reward, *ROLLED_OUT, *options
    expect_the_bits_of_one(lamp_model, lamp_prompts, tmp_path, *options, by=by, steps=5)


def test_another_number_goes_on_within_a_rollout(lamp_model, lamp_prompts, tmp_path):
    """A state has what all processes keep of their completions."""
    options = "--global-batch", 4, "--objective", "grpo", "--group", 2, "--num-iterations", 3, "--beta", "0.1"
    options += *ROLLED_OUT, "--reward", f"{tmp_path / 'rewards.py'}:high"
    whole = command(*training(lamp_model, lamp_prompts, tmp_path / "whole", *options, steps=5))
    assert whole.returncode == 0, whole.stderr
    for processes, steps in ((2, 1), (4, 2), (2, 4), (1, 5)):
        state = "--state", tmp_path / "state", "--resume"
        run = training(lamp_model, lamp_prompts, tmp_path / "out", *options, *state, steps=steps)
        status, out, err = torchrun(processes, "-m", "--", "mebp", *run)
        assert status == 0, out + err
    expect_same_adapters(tmp_path / "whole", tmp_path / "out")


def test_a_signal_within_a_rollout_stops_all_at_one_step(lamp_model, lamp_prompts, tmp_path):
    """That of rank 1 comes while it scores the third one; all forget it."""
    program = tmp_path / "program.py"
    (tmp_path / "rewards.py").write_text("""
import os, signal
calls = []

def high(completion_ids, **columns):
    calls.append(None)
    if os.environ["RANK"] == "1" and len(calls) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    return [sum(ids) / (300 * len(ids)) for ids in completion_ids]
""")
    options = "--objective", "grpo", "--group", "2", *ROLLED_OUT, "--reward", f"{tmp_path / 'rewards.py'}:high"
    given = training(lamp_model, lamp_prompts, tmp_path / "out", *options, steps=100000)
    program.write_text(f"import sys\nfrom mebp.cli import main\nsys.exit(main({[str(each) for each in given]!r}))\n")
    _, out, err = torchrun(2, program)
    assert re.search(r"^stopped after step [23] of 100000", out, re.MULTILINE), out + err
    assert (tmp_path / "out" / "adapter_model.safetensors").is_file()


def test_a_killed_rank_changes_no_bit(lamp_model, lamp_prompts, tmp_path):
    """Each of two kills itself once, as it scores its third rollout."""
    options = "--global-batch", 2, "--objective", "grpo", "--group", 2, "--num-iterations", 2, "--save-every", 3
    options += *ROLLED_OUT, "--reward", f"{tmp_path / 'rewards.py'}:high"
    (tmp_path / "rewards.py").write_text(f"""
import os, signal
from pathlib import Path

calls, rank, killed = [], os.environ.get("RANK"), [Path({str(tmp_path)!r}, "killed" + each) for each in "01"]
is_next = rank == ("1" if killed[0].exists() else "0")  # as this process begins

def high(completion_ids, **columns):
    calls.append(None)
    if is_next and len(calls) == 3 and not killed[int(rank)].exists():
        killed[int(rank)].touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return [sum(ids) / (300 * len(ids)) for ids in completion_ids]
""")
    alone = command(*training(lamp_model, lamp_prompts, tmp_path / "1", *options, steps=12))
    assert alone.returncode == 0, alone.stderr
    run = training(lamp_model, lamp_prompts, tmp_path / "out", *options, "--state", tmp_path / "state", "--resume",
                   steps=12)  # fmt: skip
    agent = start(2, "-m", "mebp", *run, restarts=2)
    out, err = agent.communicate(timeout=300)
    assert agent.returncode == 0, out + err
    first, second = map(int, re.findall("continues after step ([0-9]+),", out))
    assert first == 3 < second, out  # between the updates of a rollout
    expect_same_adapters(tmp_path / "1", tmp_path / "out")
