# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in a file: what mebp-run's memory is then, by plan and by the operating system, and what Python takes."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.inspect import inspect
from mebp.tools import find_tool
from support import models
from support.pipeline import make_bundle

TOLERANCE = 0.05


@pytest.fixture
def disk(tmp_path) -> Path:
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(tmp_path)], capture_output=True, text=True).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        pytest.skip(f"{tmp_path} is in memory; give --basetemp a folder on a disk")
    return tmp_path


def train(bundle: Path, tokens: Path, *options: str) -> tuple[list[float], dict]:
    command = [find_tool("mebp-run"), str(bundle), "--tokens", str(tokens), "--json", "--sample-memory", *options]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    *steps, end = [json.loads(line) for line in run.stdout.splitlines()]
    return [step[name] for step in steps for name in ("loss", "grad_norm")], end


def test_the_peak_falls_by_the_checkpoints(smollm2, disk, show):
    tokens = disk / "tokens.npy"
    np.save(tokens, np.random.default_rng(0).integers(0, 49152, (1, 512), dtype=np.int32))
    losses, kept = train(smollm2.bundle, tokens)
    same, spilled = train(smollm2.bundle, tokens, "--spill", str(disk))
    assert same == losses
    show(
        f"SmolLM2-135M, 512 tokens, checkpoints spilled: planned {spilled['planned_bytes'] / 1e6:.1f} MB, "
        f"measured {spilled['peak_bytes'] / 1e6:.1f} MB; in memory {kept['peak_bytes'] / 1e6:.1f} MB"
    )
    checkpoint = 512 * 576 * 4
    assert kept["planned_bytes"] - spilled["planned_bytes"] == 30 * checkpoint
    assert kept["peak_bytes"] - spilled["peak_bytes"] == pytest.approx(30 * checkpoint, rel=TOLERANCE)
    assert spilled["peak_bytes"] == pytest.approx(spilled["planned_bytes"], rel=TOLERANCE)
    assert [path.name for path in disk.iterdir()] == ["tokens.npy"]


def test_the_optimizer_s_state_leaves_memory(smollm2, disk, show):
    tokens = disk / "tokens.npy"
    np.save(tokens, np.random.default_rng(0).integers(0, 49152, (2, 32), dtype=np.int32))
    losses, _ = train(smollm2.bundle, tokens)
    same, filed = train(smollm2.bundle, tokens, "--spill", str(disk), "--spill-optimizer")
    _, sgd = train(smollm2.bundle, tokens, "--spill", str(disk), "--optimizer", "sgd")
    assert same == losses
    show(
        f"SmolLM2-135M, checkpoints spilled: adamw, adapter and state in the file {filed['peak_bytes'] / 1e6:.1f} MB, "
        f"sgd {sgd['peak_bytes'] / 1e6:.1f} MB"
    )
    largest = 8 * 1536 * 4  # one trainable, of the widest layer
    adapter = inspect(smollm2.bundle)["plan"]["buffers"]
    trained = next(each["bytes"] for each in adapter if each["name"] == "trainables")
    assert sgd["planned_bytes"] - filed["planned_bytes"] == trained - 3 * largest
    fewer = sgd["peak_bytes"] - filed["peak_bytes"]
    assert abs(fewer - (trained - 3 * largest)) <= TOLERANCE * sgd["peak_bytes"]


def test_python_takes_the_folder(bundle, disk):
    ids = np.arange(60, 92)[None]
    expected, gradients = mebp.Session(bundle).loss_and_gradients(ids, ids)
    session = mebp.Session(bundle, spill_folder=disk)
    loss, spilled = session.loss_and_gradients(ids, ids)
    assert loss == expected
    assert all(np.array_equal(spilled[key], gradient) for key, gradient in gradients.items())
    filed = mebp.Session(bundle, spill_folder=disk, state_in_file=True)
    assert filed.plan["planned_peak_bytes"] < session.plan["planned_peak_bytes"]
    assert filed.step(ids, ids).written_bytes > session.step(ids, ids).written_bytes > 0
    assert filed.step(ids, ids).loss == session.step(ids, ids).loss
    with pytest.raises(mebp.Error, match="none: cannot make a file here: No such file or directory; check the path"):
        mebp.Session(bundle, spill_folder=disk / "none")


def test_a_plan_spills_without_being_asked_again(tmp_path, disk, monkeypatch):
    model = models.build("llama")
    ids = models.token_ids(model, 2, 24).numpy()
    monkeypatch.setenv("TMPDIR", str(disk))
    losses, peaks = [], []
    for spill in ("none", "all"):
        bundle = make_bundle(model, tmp_path / spill, seq_len=24, batch=2, chunk_size=10, spill=spill)
        session = mebp.Session(bundle, return_gradients=False)
        assert session.plan["planned_peak_bytes"] == session.plan["peak_bytes"]
        peaks.append(session.plan["peak_bytes"])
        losses.append([session.step(ids, ids).loss for _ in range(3)])
        shorter = session.step(ids[:, :17], ids[:, :17])
        losses[-1].append(shorter.loss)
        written = session.step(ids, ids).written_bytes
        assert shorter.written_bytes <= written <= session.plan["file_bytes"]  # of which a little is rounding up
    assert losses[0] == losses[1]
    assert peaks[0] > peaks[1]
    monkeypatch.setenv("TMPDIR", str(disk / "missing"))
    with pytest.raises(mebp.Error, match="the plan keeps checkpoints in a file: name a folder on a disk"):
        mebp.Session(tmp_path / "all" / "model.mebp")
    mebp.Session(tmp_path / "all" / "model.mebp", spill_folder=disk)


def test_a_run_says_what_it_writes(bundle, data, disk, capsys):
    losses = []
    for options in ({}, {"spill": disk}):
        run = mebp.train(bundle, data, steps=2, **options)
        losses.append([record.loss for record in run.records])
    assert losses[0] == losses[1]
    before, after = capsys.readouterr().out.split("2 steps, ")[1:]
    assert "to disk" not in before and after.count("MB to disk, which wears flash") == 1
