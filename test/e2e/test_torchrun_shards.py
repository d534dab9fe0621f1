# SPDX-License-Identifier: Apache-2.0
"""Processes that each have a part of the optimizer, or of the weights, have the bits of one that has all."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import mebp
from support import models
from support.commands import mebp as command
from support.textmodel import make_tokenizer
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


def test_rollouts_have_the_bits_of_one(lamp_model, lamp_prompts, tmp_path):
    """Whose answers take all weights, so that the optimizer alone is in parts."""
    run = ["train", lamp_model, "--data", lamp_prompts, *EXACT, "--steps", 3, "--global-batch", 4,
           "--objective", "grpo", "--group", 2, "--max-completion", 8,
           "--reward", f"{tmp_path / 'rewards.py'}:high"]  # fmt: skip
    alone = command(*run, "--adapter-out", tmp_path / "1")
    assert alone.returncode == 0, alone.stderr
    expect_the_bits_of_one(tmp_path / "1", tmp_path, ["--shard", "optimizer"], run, "2")


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


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_what_is_cut_has_the_bits_of_one(tmp_path, lamp_data, kind):
    """A table of three tiles of the norm, which two processes share, and its state."""
    folder = tmp_path / "tiny"
    models.save(models.build("llama", vocab_size=1024, num_hidden_layers=1), folder)
    make_tokenizer(folder)
    run = ["train", folder, "--data", lamp_data, "--train", "full", "--train-targets", "*", "--weights", kind,
           "--precision", "f32", "--lr", "1e-3", "--seq-len", "32", "--global-batch", 4, "--clip", "0.5"]  # fmt: skip
    alone = command(*run, "--steps", 4, "--model-out", tmp_path / "1")
    assert alone.returncode == 0, alone.stderr
    state = ["--state", tmp_path / "state", "--resume", "--model-out", tmp_path / "2"]
    for steps in (2, 4):
        status, _, err = torchrun(2, "-m", "mebp", *run, "--steps", steps, *state, "--shard", "optimizer")
        assert status == 0, err
    expect_same_adapters(tmp_path / "1", tmp_path / "2")


@pytest.mark.parametrize("options", [["galore", "--clip", "0.5"], ["qgalore", "--weights", "int8"]])
def test_projected_gradients_have_the_bits_of_one(lamp_model, lamp_data, tmp_path, options):
    """Each process has the projectors of all, and of the moments a part; a state goes on."""
    options = "--train", "full", "--galore-rank", 8, "--galore-update-interval", 2, "--optimizer", *options
    shared = *options, "--global-batch", 4
    alone = command(*training(lamp_model, lamp_data, tmp_path / "1", *shared, steps=5))
    assert alone.returncode == 0, alone.stderr
    state = "--state", tmp_path / "state", "--resume", "--shard", "optimizer"
    for steps in (3, 5):
        run = training(lamp_model, lamp_data, tmp_path / "2", *shared, *state, steps=steps)
        status, _, err = torchrun(2, "-m", "mebp", *run)
        assert status == 0, err
    expect_same_adapters(tmp_path / "1", tmp_path / "2")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["optimizer", "--optimizer", "mezo"], "--shard optimizer: owned says which updates by gradients are made"),
        (["weights", "--ask", "Lamp 1: "], "--ask writes answers, which takes all weights"),
    ],
)
def test_what_cannot_be_shared_out_is_named(lamp_model, lamp_data, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    run = ["train", lamp_model, "--data", lamp_data, *EXACT, "--steps", 7, "--global-batch", 4, "--shard", *options]
    status, _, err = torchrun(2, "-m", "mebp", *run)
    assert status == 1
    (line,) = own_lines(err)
    assert said in line
    assert list(tmp_path.iterdir()) == [lamp_data]


def test_auto_says_what_it_has_chosen_and_mapped_weights_are_as_fast(lamp_model, lamp_data, tmp_path):
    expected = {"auto": r"^--shard auto: optimizer$", "weights": r"^note: without --shard weights it would be"}
    for shard, said in expected.items():
        run = training(lamp_model, lamp_data, tmp_path / shard, "--global-batch", 4, "--shard", shard, steps=2)
        status, out, err = torchrun(2, "-m", "mebp", *run)
        assert status == 0, err
        assert len(re.findall(r"^a batch, predicted: .* s with mapped weights, .* s with sharded ones", out, re.M)) == 1
        assert len(re.findall(said, out, re.M)) == 1


def test_a_ring_is_equal_but_for_rounding(lamp_model, lamp_data, tmp_path):
    """One step of gradient descent, whose updates are gradients: of A none yet, for B is zero."""
    descent = "--optimizer", "sgd", "--global-batch", 4
    alone = command(*training(lamp_model, lamp_data, tmp_path / "1", *descent, steps=1))
    assert alone.returncode == 0, alone.stderr
    run = training(lamp_model, lamp_data, tmp_path / "2", *descent, "--reduce", "ring", steps=1)
    status, out, err = torchrun(2, "-m", "mebp", *run)
    assert status == 0, err
    assert out.splitlines()[0] == "2 processes, --global-batch 4: as in one, but for rounding"
    expected, found = (load_file(tmp_path / name / "adapter_model.safetensors") for name in "12")
    for key, values in expected.items():
        if "lora_B" in key:
            assert np.linalg.norm(found[key] - values) <= 1e-6 * np.linalg.norm(values) != 0, key
        else:
            np.testing.assert_array_equal(found[key], values, err_msg=key)


@pytest.mark.parametrize("damage", ["byte", "end", "whole"])
def test_a_damaged_file_of_weights_is_named_with_its_rank(lamp_model, lamp_data, tmp_path, damage):
    """Rank 1 has a copy, as another machine would."""
    bundle, own = tmp_path / "tiny.mebp", tmp_path / "own" / "tiny.mebp"
    mebp.export(lamp_model, tmp_path / "tiny.onnx", seq_len=32)
    mebp.compile(tmp_path / "tiny.onnx", bundle, accumulate=True)
    shutil.copytree(bundle, own)
    weights = bytearray((own / "weights.bin").read_bytes())
    weights[100] ^= 1
    (own / "weights.bin").unlink()
    if damage != "whole":
        (own / "weights.bin").write_bytes(weights if damage == "byte" else weights[:-1])
    program = tmp_path / "program.py"
    given = [f"{each}" for each in ("train", bundle, "--data", lamp_data, "--global-batch", 2, "--steps", 2, "--shard",
             "weights", "--adapter-out", tmp_path / "out")]  # fmt: skip
    program.write_text(f"""import os, sys
from mebp.cli import main
given = {given!r}
if os.environ["RANK"] == "1":
    given[1], os.environ["LOCAL_RANK"] = {f"{own}"!r}, "0"
sys.exit(main(given))
""")
    status, _, err = torchrun(2, program)
    assert status == 1
    (line,) = own_lines(err)
    assert re.match(rf"mebp: rank 1: .*{own}.*weights.bin", line) and not (tmp_path / "out").exists(), line


@pytest.mark.parametrize("option", ["--shard", "--reduce"])
def test_they_are_of_several_processes(lamp_model, lamp_data, tmp_path, option):
    value = {"--shard": "optimizer", "--reduce": "ring"}[option]
    refused = command(*training(lamp_model, lamp_data, tmp_path / "1", option, value))
    assert refused.returncode == 2
    assert own_lines(refused.stderr) == [
        f"mebp: {option} is for processes that torchrun or mebp.ray starts; leave it out"
    ]
