# SPDX-License-Identifier: Apache-2.0
"""What is planned for a device with memory of its own, beside what MLX's CPU build holds, and how a budget decides."""

import json
import subprocess

import numpy as np
import pytest

import mebp
from mebp.tools import find_tool
from support import models
from support.exports import export
from support.judges import judge

TOKENS = 256
SHAPE = {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 2, "vocab_size": 2048}


@pytest.fixture(scope="module")
def onnx(tmp_path_factory):
    path = tmp_path_factory.mktemp("device_plan") / "model.onnx"
    model = models.build("llama", num_attention_heads=4, num_key_value_heads=2, **SHAPE)
    export(model, path, seq_len=TOKENS)
    return path


@pytest.mark.parametrize("chunk", [0, 64])
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_a_device_holds_what_is_planned(onnx, tmp_path, precision, chunk):
    mlx = judge("mlx.core")
    bundle = tmp_path / "model.mebp"
    mebp.compile(onnx, bundle, precision=precision, device="mlx-cpu", chunk_size=chunk)
    session = mebp.Session(bundle, device="mlx-cpu")
    plan = session.plan
    ids = np.random.default_rng(0).integers(0, SHAPE["vocab_size"], (1, TOKENS))
    before = mlx.get_active_memory()
    mlx.reset_peak_memory()
    for _ in range(2):
        session.step(ids, ids)
    held = mlx.get_peak_memory() - before
    planned = plan["weights_bytes"] + plan["device_bytes"]
    print(f"{precision}, chunk {chunk}: planned {planned / 1e6:.2f} MB, held {held / 1e6:.2f} MB")
    assert planned / 2 < held <= planned


def run_mebpc(onnx, *options):
    command = [find_tool("mebpc"), str(onnx), "--plan-only", "--rates", "none", *options]
    return subprocess.run(command, capture_output=True, text=True)


def planned(onnx, tmp_path, *options):
    path = tmp_path / "plan.json"
    run = run_mebpc(onnx, "--plan-json", str(path), *options)
    assert run.returncode == 0, run.stderr
    return json.loads(path.read_text())


def test_a_budget_decides_on_the_chunks_of_a_device(onnx, tmp_path):
    free = planned(onnx, tmp_path, "--device", "mlx")
    assert free["chunk"] == 0
    parts = {part["name"]: part["bytes"] for part in free["buffers"]}
    assert free["peak_bytes"] == free["process_bytes"] + sum(parts.values())
    assert free["device_bytes"] == parts["scratch"] + parts["device"]
    assert "workspace" not in parts
    tight = planned(onnx, tmp_path, "--device", "mlx", "--memory-budget", f"{free['peak_bytes'] // 2}B")
    assert tight["chunk"] > 0
    assert tight["peak_bytes"] <= free["peak_bytes"] // 2


def test_a_plan_for_the_cpu_says_what_a_device_would_hold(onnx, tmp_path):
    on_cpu, on_mlx = planned(onnx, tmp_path), planned(onnx, tmp_path, "--device", "mlx")
    assert on_cpu["device"] == "cpu"
    assert on_cpu["device_bytes"] == on_mlx["device_bytes"]
    assert on_cpu["peak_bytes"] < on_mlx["peak_bytes"]


def test_what_a_device_does_not_have_is_refused(onnx):
    for option in (["--threads", "2"], ["--resident-limit", "1MB"]):
        run = run_mebpc(onnx, "--device", "mlx", *option)
        assert run.returncode == 2
        assert run.stderr == f"mebpc: {option[0]}: is not for --device mlx; leave it out\n"
    assert run_mebpc(onnx, "--device", "tpu").returncode == 2
