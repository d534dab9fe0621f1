# SPDX-License-Identifier: Apache-2.0
"""What layers keep for their backward: it saves time in memory that is there, and changes no bit."""

import json
import subprocess

import numpy as np
import pytest

import mebp
from mebp.extension import load_runtime
from mebp.tools import find_tool
from mebp.verification.inputs import randomise_adapter
from support import models
from support.exports import export
from support.soak import SOAK

SEQUENCE = 64


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keep")
    model = models.build("llama", num_hidden_layers=3)
    export(model, folder / "model.onnx", seq_len=SEQUENCE)
    return model, folder / "model.onnx"


def list_points(path, file, *options: str) -> list[dict]:
    """The frontier's, without those that spill."""
    command = [find_tool("mebpc"), str(path), "--frontier", "--plan-json", str(file), *options]
    subprocess.run(command, check=True, capture_output=True)
    return json.loads(file.read_text())["frontier"]


def same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[key], right[key]) for key in left)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_every_point_has_the_gradients_of_recomputation(exported, tmp_path, precision):
    """Of all points with one chunk size, one that keeps nothing included."""
    model, path = exported
    points = list_points(path, tmp_path / "frontier.json", "--precision", precision, "--spill", "none")
    ids = models.token_ids(model, 1, 50).numpy()
    recomputed, kept = {}, 0
    for point in points[:: 1 if SOAK else 4]:
        bundle = tmp_path / "model.mebp"
        mebp.compile(path, bundle, precision=precision, memory_budget=point["peak_bytes"], spill="none")
        plan = mebp.Session(bundle, return_gradients=False).plan
        assert plan["planned_peak_bytes"] == point["peak_bytes"]
        assert plan["arenas"].get("kept", 0) == point["kept_bytes"]
        assert (point["kept_bytes"] > 0) == (point["kept_values"] != "")
        kept += point["kept_bytes"] > 0
        chunk = point["chunk"]
        if chunk not in recomputed:
            plain = tmp_path / "plain.mebp"
            mebp.compile(path, plain, precision=precision, chunk_size=chunk or None)
            recomputed[chunk] = find_gradients(plain, ids)
        found = find_gradients(bundle, ids)
        assert found[0] == recomputed[chunk][0] and same(found[1], recomputed[chunk][1]), point
    assert kept > 5 and len(recomputed) > 1


def test_what_memory_gives_slower_than_it_is_computed_is_computed(exported, tmp_path):
    """`memory`: nanoseconds in which a byte is written and read."""
    rates = tmp_path / "rates.json"

    def most_kept(memory: float) -> int:
        measured = {"version": 1, "processor": "", "threads": [1], "nanoseconds": {"memory": [[0, 0, 0, memory]]}}
        rates.write_text(json.dumps(measured))
        points = list_points(exported[1], tmp_path / "frontier.json", "--spill", "none", "--rates", str(rates))
        return max(point["kept_bytes"] for point in points)

    assert most_kept(0) > most_kept(1) > most_kept(1000) == 0


def find_gradients(bundle, ids):
    session = mebp.Session(bundle, threads=1)
    randomise_adapter(session)
    return session.loss_and_gradients(ids, ids)


@pytest.mark.parametrize("name", ["gemma2", "gpt2", "qwen3", "phi3", "cohere"])
def test_other_layers_keep_values_too(tmp_path, name):
    model = models.build(name)
    path = tmp_path / "model.onnx"
    export(model, path, seq_len=SEQUENCE)
    most = list_points(path, tmp_path / "frontier.json", "--spill", "none")[-1]
    mebp.compile(path, tmp_path / "kept.mebp", memory_budget=most["peak_bytes"])
    mebp.compile(path, tmp_path / "plain.mebp", chunk_size=most["chunk"] or None)
    assert most["kept_bytes"] > 0
    ids = models.token_ids(model, 1, 50).numpy()
    kept, plain = (find_gradients(tmp_path / name, ids) for name in ("kept.mebp", "plain.mebp"))
    assert kept[0] == plain[0] and same(kept[1], plain[1])


@pytest.mark.parametrize(
    "compiled, options",
    [
        ({}, {"lr": 1e-2}),
        ({}, {"lr": 1e-2, "device": "mlx-cpu"}),
        ({"train": "full", "weights": "f32", "optimizer": "galore", "galore_rank": 4}, {"galore_update_interval": 2}),
        ({"adapter": mebp.PrivateLoRA(rank_down=8, rank_up=8)}, {"lr": 1e-2}),
    ],
    ids=["lora", "mlx", "galore", "private-lora"],
)
def test_steps_are_those_of_recomputation(exported, tmp_path, compiled, options):
    """An evaluation in between writes the memory of what is kept, and harms nothing."""
    model, path = exported
    mebp.compile(path, tmp_path / "plain.mebp", batch=2, **compiled)
    mebp.compile(path, tmp_path / "kept.mebp", batch=2, **compiled, memory_budget="1GB")
    batches = [models.token_ids(model, 2, length, seed=length).numpy() for length in (50, 64, 33)]
    losses, trained = [], []
    for name in ("plain.mebp", "kept.mebp"):
        session = mebp.Session(tmp_path / name, threads=1, **options)
        losses.append([(session.step(ids, ids).loss, session.loss(batches[0], batches[0])) for ids in batches])
        trained.append(session.trainables())
    assert losses[0] == losses[1] and same(*trained)


def test_a_session_without_backwards_keeps_nothing(exported, tmp_path):
    _, path = exported
    bundle = tmp_path / "kept.mebp"
    mebp.compile(path, bundle, memory_budget="1GB")
    keeping, without = (mebp.Session(bundle, optimizer=optimizer).plan for optimizer in ("sgd", "mezo"))
    kept = keeping["arenas"]["kept"]
    assert kept > 0 and without["session_bytes"] < keeping["session_bytes"] - kept / 2
    assert ("mezo", True) in [tuple(each) for each in load_runtime().optimizers()]
    command = [find_tool("mebpc"), str(path), "--plan-only", "--optimizer", "mezo", "--memory-budget", "1GB"]
    assert "kept" not in subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_plan_says_what_twice_the_memory_would_buy(exported):
    def run(*options: str) -> list[str]:
        command = [find_tool("mebpc"), str(exported[1]), "--plan-only", "--threads", "1", *options]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()

    said = [line for line in run() if "twice the memory" in line]
    assert len(said) == 1
    assert float(said[0].split(" takes ")[1].split(" of that")[0]) < 0.97
    budget = said[0].rsplit(" ", 1)[1]
    assert any("kept" in line for line in run("--memory-budget", budget))
    for options in (["--chunk-size", "16"], ["--memory-budget", budget], ["--optimizer", "mezo"]):
        assert not any("twice" in line for line in run(*options))
