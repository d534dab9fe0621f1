# SPDX-License-Identifier: Apache-2.0
"""Processes that each have a part of the optimizer, or of the weights, have the bits of one that has all."""

from pathlib import Path

import pytest

from support.commands import mebp as command
from support.torchrun import EXACT, expect_same_adapters, own_lines, torchrun, training

pytestmark = pytest.mark.usefixtures("one_cache")


def expect_the_bits_of_one(alone: Path, folder: Path, options: list[object], run: list[object], by: str) -> None:
    """`by`: numbers of processes; `run` begins a run without them."""
    for processes in by:
        out = folder / processes
        status, printed, err = torchrun(int(processes), "-m", "mebp", *run, "--adapter-out", out, *options)
        assert status == 0, err
        assert printed.splitlines()[0] == f"{processes} processes, --global-batch 4: the same bits as in one"
        expect_same_adapters(alone, out)


@pytest.mark.parametrize("shard", ["optimizer", "weights"])
@pytest.mark.parametrize(
    ("by", "options"),
    [
        ("24", ["--clip", "0.5", "--lora-dropout", "0.2", "--eval-every", "3", "--val-split", "0.2"]),
        ("2", ["--packing", "--optimizer", "adamw8bit"]),
    ],
    ids=["clipped, measured", "packed"],
)
def test_two_and_four_have_the_bits_of_one(lamp_model, lamp_data, tmp_path, shard, by, options):
    run = ["train", lamp_model, "--data", lamp_data, *EXACT, "--steps", 7, "--global-batch", 4, *options]
    alone = command(*run, "--adapter-out", tmp_path / "1")
    assert alone.returncode == 0, alone.stderr
    expect_the_bits_of_one(tmp_path / "1", tmp_path, ["--shard", shard], run, by)


@pytest.mark.parametrize("shard", ["optimizer", "weights"])
def test_pairs_have_the_bits_of_one(lamp_model, lamp_pairs, tmp_path, shard):
    run = ["train", lamp_model, "--data", lamp_pairs, *EXACT, "--steps", 3, "--global-batch", 4, "--objective", "dpo"]
    alone = command(*run, "--adapter-out", tmp_path / "1")
    assert alone.returncode == 0, alone.stderr
    expect_the_bits_of_one(tmp_path / "1", tmp_path, ["--shard", shard], run, "2")


@pytest.mark.parametrize("shard", ["optimizer", "weights"])
def test_a_state_goes_on_in_any_number_of_processes(lamp_model, lamp_data, tmp_path, shard):
    """Each writes a part of it, and reads one."""
    whole = command(*training(lamp_model, lamp_data, tmp_path / "1", "--global-batch", 4, steps=7))
    assert whole.returncode == 0, whole.stderr
    state = ["--global-batch", 4, "--state", tmp_path / "state", "--resume"]
    for processes, steps in ((4, 2), (2, 4)):
        run = training(lamp_model, lamp_data, tmp_path / "parts", *state, "--shard", shard, steps=steps)
        status, _, err = torchrun(processes, "-m", "mebp", *run)
        assert status == 0, err
    last = command(*training(lamp_model, lamp_data, tmp_path / "parts", *state, steps=7))
    assert last.returncode == 0, last.stderr
    expect_same_adapters(tmp_path / "1", tmp_path / "parts")


@pytest.mark.parametrize("option", ["--shard", "--reduce"])
def test_they_are_of_several_processes(lamp_model, lamp_data, tmp_path, option):
    value = {"--shard": "optimizer", "--reduce": "ring"}[option]
    refused = command(*training(lamp_model, lamp_data, tmp_path / "1", option, value))
    assert refused.returncode == 2
    assert own_lines(refused.stderr) == [f"mebp: {option} is for processes that torchrun starts; leave it out"]
