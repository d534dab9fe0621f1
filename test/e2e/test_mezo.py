# SPDX-License-Identifier: Apache-2.0
"""MeZO: what it is planned for, what it then takes, and that it trains."""

import json
import subprocess

import numpy as np
import pytest

import mebp
from mebp.tools import find_tool
from support import models
from support.exports import export
from support.pipeline import make_bundle

TOLERANCE = 0.10  # as test_memory.py's


@pytest.fixture(scope="module")
def model():
    return models.build("llama", num_hidden_layers=4)


@pytest.mark.parametrize("chunk", [0, 8])
def test_a_plan_for_it_has_no_backward(model, tmp_path, chunk):
    plans = {}
    for optimizer in ("sgd", "mezo"):
        bundle = make_bundle(model, tmp_path / optimizer, seq_len=24, chunk_size=chunk, optimizer=optimizer)
        session = mebp.Session(bundle, return_gradients=None if optimizer == "mezo" else False)
        assert session.optimizer == optimizer
        plans[optimizer] = session.plan
        assert session.plan["planned_peak_bytes"] == session.plan["peak_bytes"]
    assert plans["mezo"]["peak_bytes"] < plans["sgd"]["peak_bytes"]
    assert not {"checkpoints", "gradients", "optimizer"} & set(plans["mezo"]["arenas"])
    assert plans["mezo"]["live_bytes"] <= plans["mezo"]["peak_bytes"] <= 1.03 * plans["mezo"]["live_bytes"]


def test_it_lowers_the_loss(model, tmp_path):
    session = mebp.Session(make_bundle(model, tmp_path, seq_len=24), optimizer="mezo", lr=1e-3)
    ids = models.token_ids(model, 1, 24).numpy()
    losses = [session.step(ids, ids).loss for _ in range(300)]
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) - 0.5


def test_a_budget_counts_forwards_alone(model, tmp_path):
    export(model, tmp_path / "model.onnx", seq_len=64)
    command = [find_tool("mebpc"), str(tmp_path / "model.onnx"), "--plan-only", "--memory-budget", "1KB"]
    lines = {}
    for optimizer in ("sgd", "mezo"):
        run = subprocess.run([*command, "--optimizer", optimizer], capture_output=True, text=True)
        assert run.returncode == 2
        lines[optimizer] = run.stderr
    least = {name: float(line.split("needs at least ")[1].split(" MB")[0]) for name, line in lines.items()}
    assert least["mezo"] < least["sgd"]
    assert "--spill" not in lines["mezo"] and "--optimizer sgd" not in lines["mezo"]
    mebp.compile(tmp_path / "model.onnx", tmp_path / "m.mebp", optimizer="mezo", memory_budget=f"{least['mezo']:.2f}MB")
    with pytest.raises(mebp.Error, match="keeps no checkpoints"):
        mebp.compile(tmp_path / "model.onnx", tmp_path / "m.mebp", optimizer="mezo", spill="checkpoints")


def test_the_peak_is_the_planned_one(smollm2, tmp_path, show):
    np.save(tmp_path / "tokens.npy", np.random.default_rng(0).integers(0, 49152, (1, 512), dtype=np.int32))
    command = [find_tool("mebp-run"), str(smollm2.bundle), "--tokens", str(tmp_path / "tokens.npy"), "--json"]
    command += ["--sample-memory", "--threads", "1"]
    run = subprocess.run([*command, "--optimizer", "mezo"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    mezo = json.loads(run.stdout.splitlines()[-1])
    sgd = mebp.Session(smollm2.bundle, optimizer="sgd", return_gradients=False).plan["planned_peak_bytes"]
    show(
        f"SmolLM2-135M, 512 tokens, MeZO: planned {mezo['planned_bytes'] / 1e6:.1f} MB, measured "
        f"{mezo['peak_bytes'] / 1e6:.1f} MB; SGD's plan {sgd / 1e6:.1f} MB"
    )
    # All of the runtime's own megabyte is planned, and not all of it is taken.
    assert mezo["planned_bytes"] - 1.2e6 <= mezo["peak_bytes"] <= (1 + TOLERANCE) * mezo["planned_bytes"]
    assert mezo["peak_bytes"] < sgd / 2
