# SPDX-License-Identifier: Apache-2.0
"""`mebp train --model-out`: transformers opens what was trained, and computes what the session does."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import mebp
from mebp.inspect import inspect
from mebp.verification.comparison import relative_error
from support import models
from support.commands import mebp as run_mebp
from support.commands import refusal
from support.pipeline import make_bundle
from support.textmodel import TEXT, make_text_bundle

FULL = {"weights": "f32", "embedding_weights": "f32", "train": "full"}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    return make_text_bundle(tmp_path_factory.mktemp("text"), **FULL)


def logits_of(folder: Path, ids: np.ndarray) -> np.ndarray:
    model = AutoModelForCausalLM.from_pretrained(folder).float().eval()
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(ids)).logits.numpy()


@pytest.mark.parametrize(("family", "targets"), [("llama", "all-linear"), ("qwen2", "*"), ("gpt2", ["*ln_*", "*bias"])])
def test_transformers_computes_the_same(tmp_path, family, targets):
    model = models.build(family)
    models.save(model, tmp_path / "source")
    bundle = make_bundle(tmp_path / "source", tmp_path, seq_len=32, batch=2, **FULL, train_targets=targets)
    session = mebp.Session(bundle, optimizer="sgd", lr=0.5)
    ids = models.token_ids(model, 2, 27).numpy()
    before = load_file(tmp_path / "source" / "model.safetensors")
    session.step(ids, ids)
    session.save_model(tmp_path / "new" / "trained")
    after = load_file(tmp_path / "new" / "trained" / "model.safetensors")
    assert {name: values.shape for name, values in after.items()} == {name: v.shape for name, v in before.items()}
    # What is not trained is the base's, to the bit, and what is, is not.
    changed = {name for name, values in after.items() if not np.array_equal(values, before[name])}
    assert len(changed) == len(session.trainables())
    assert relative_error(session.logits(ids), logits_of(tmp_path / "new" / "trained", ids)) < 1e-4
    with pytest.raises(mebp.Error, match="exists already; give a new or an empty folder"):
        session.save_model(tmp_path / "new" / "trained")


def test_a_run_leaves_a_model(bundle, data, tmp_path):
    command = ["train", bundle, "--data", data, "--lr", 1e-2, "--model-out", tmp_path / "model"]
    run = run_mebp(*command, "--steps", 4)
    assert run.returncode == 0, run.stderr
    assert f"model: {tmp_path / 'model'}" in run.stdout
    assert AutoTokenizer.from_pretrained(tmp_path / "model")("The")
    first = load_file(tmp_path / "model" / "model.safetensors")
    names = {trained["name"] for trained in inspect(bundle)["trainables"]}
    assert names <= set(first)

    what = (
        f"--model-out {tmp_path / 'model'}: exists already (a model); add --overwrite to replace it or choose another"
    )
    assert what in refusal(*command, "--steps", 4)
    assert run_mebp(*command, "--steps", 4, "--overwrite").returncode == 0
    again = load_file(tmp_path / "model" / "model.safetensors")
    assert all(np.array_equal(values, again[name]) for name, values in first.items())
    assert {entry.name for entry in tmp_path.iterdir()} == {"model"}


def test_the_best_or_all_are_kept(bundle, data, tmp_path):
    command = ["train", bundle, "--data", data, "--eval", data, "--eval-every", 2, "--steps", 4, "--lr", 1e-3]
    run = run_mebp(*command, "--keep", "best", "--model-out", tmp_path / "best")
    assert run.returncode == 0 and f"model: {tmp_path / 'best'} (eval loss" in run.stdout, run.stderr
    assert run_mebp(*command, "--keep", "all", "--model-out", tmp_path / "all").returncode == 0
    assert sorted(entry.name for entry in (tmp_path / "all").glob("step-*")) == ["step-2", "step-4"]
    last = (tmp_path / "all" / "step-4" / "model.safetensors").read_bytes()
    assert last == (tmp_path / "best" / "model.safetensors").read_bytes()


def test_the_best_is_tested_and_the_last_stays(bundle, data, tmp_path, monkeypatch):
    losses = [1.0, 2.0, 3.0, 7.0]  # of three evaluations and the test
    seen = []

    def evaluate(session, *_: object, **__: object) -> float:
        seen.append(session.trainables())
        return losses[len(seen) - 1]

    monkeypatch.setattr("mebp.training.objectives.rows.evaluate", evaluate)
    run = mebp.train(bundle, data, steps=3, lr=1e-2, eval=data, eval_every=1, test=data, keep="best",
                     patience=2, model_out=tmp_path / "model", progress=False)  # fmt: skip
    assert run.test_loss == 7.0 and len(seen) == 4
    for name, values in seen[3].items():
        assert np.array_equal(values, seen[0][name]) and not np.array_equal(values, seen[2][name])
    assert all(np.array_equal(values, seen[2][name]) for name, values in run.session.trainables().items())
    assert {entry.name for entry in tmp_path.iterdir()} == {"model"}


def test_a_resumed_run_leaves_the_same_model(bundle, data, tmp_path):
    command = ["train", bundle, "--data", data, "--lr", 1e-2]
    assert run_mebp(*command, "--steps", 4, "--model-out", tmp_path / "whole").returncode == 0
    halves = [*command, "--state", tmp_path / "state", "--model-out", tmp_path / "halves"]
    assert run_mebp(*halves, "--steps", 2).returncode == 0
    assert run_mebp(*halves, "--steps", 4, "--resume").returncode == 0
    names = ["config.json", "model.safetensors"]
    whole, halves = ([(tmp_path / folder / name).read_bytes() for name in names] for folder in ("whole", "halves"))
    assert whole == halves
    assert json.loads(whole[0])["dtype"] == "float32"


def test_refusals(bundle, data, tmp_path):
    command = ["train", bundle, "--data", data, "--steps", 1]
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    assert f"--model-out {other}: exists and is not a model of mebp train; choose another" in refusal(
        *command, "--model-out", other, "--overwrite"
    )
    assert (other / "notes.txt").read_text() == "mine"
    assert f"--model-out {bundle}: is also the bundle" in refusal(*command, "--model-out", bundle)
    both = refusal(*command, "--model-out", tmp_path / "m", "--adapter-out", tmp_path / "a")
    assert "--adapter-out and --model-out cannot be used together" in both
    assert "has no adapter; mebp train --model-out" in refusal(*command, "--adapter-out", tmp_path / "a")
    assert {entry.name for entry in tmp_path.iterdir()} == {"other"}
