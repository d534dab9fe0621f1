# SPDX-License-Identifier: Apache-2.0
"""Trained weights of the model lie in a copy that the session owns: as they are stored, in memory or in a file."""

import subprocess

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import mebp
from mebp.extension import load_runtime
from mebp.inspect import inspect
from mebp.tools import find_tool
from support import models
from support.pipeline import make_bundle

SEQUENCE = 24
FULL = {"train": "full", "train_targets": "*", "precision": "f32"}
STORAGES = ["f32", "bf16"]
OPTIMIZERS = [name for name, takes_losses in load_runtime().optimizers() if not takes_losses and "galore" not in name]


def make(folder, storage, family="llama", **options):
    model = models.build(family)
    options = {"weights": storage, "embedding_weights": storage} | FULL | options
    return model, make_bundle(model, folder, seq_len=SEQUENCE, **options)


def rounded(values: np.ndarray) -> np.ndarray:
    return torch.from_numpy(values).to(torch.bfloat16).float().numpy()


def test_bf16_is_updated_in_f32_and_rounded_to_the_nearest(tmp_path):
    model, bundle = make(tmp_path, "bf16")
    ids = models.token_ids(model, 1, SEQUENCE).numpy()
    session = mebp.Session(bundle, optimizer="sgd", lr=0.1)
    before, (_, gradients) = session.trainables(), session.loss_and_gradients(ids, ids)
    session.step(ids, ids)
    narrow = {each["name"] for each in inspect(bundle)["trainables"] if each["storage"] == "bf16"}
    assert narrow == {key for key, values in before.items() if values.ndim == 2}
    for key, values in session.trainables().items():
        exact = before[key] - np.float32(0.1) * gradients[key]
        assert np.array_equal(values, rounded(exact) if key in narrow else exact), key
    # Half the bytes, but for the norms.
    elements = sum(values.size for values in before.values())
    assert session.plan["arenas"]["trainables"] < 2.1 * elements


def test_what_is_set_is_rounded_too(tmp_path):
    _, bundle = make(tmp_path, "bf16")
    session = mebp.Session(bundle)
    key, values = next(iter(session.trainables().items()))
    values = np.random.default_rng(0).normal(size=values.shape).astype(np.float32)
    session.set_trainables({key: values})
    assert np.array_equal(session.trainables()[key], rounded(values))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("storage", STORAGES)
def test_a_file_gives_the_same_bits(tmp_path, storage, optimizer):
    model, bundle = make(tmp_path, storage, "qwen2", optimizer=optimizer)  # whose embedding is the head
    filed = tmp_path / "filed.mebp"
    options = {"weights": storage, "embedding_weights": storage} | FULL
    sizes = {"seq_len": SEQUENCE, "batch": 1}
    mebp.compile(tmp_path / "model.onnx", filed, **sizes, spill="all", optimizer=optimizer, **options)
    ids = models.token_ids(model, 1, SEQUENCE).numpy()
    expected = mebp.Session(bundle, lr=1e-2, return_gradients=False)
    session = mebp.Session(filed, lr=1e-2, return_gradients=False, spill_folder=tmp_path)
    for _ in range(3):
        result = session.step(ids, ids)
        assert result.loss == expected.step(ids, ids).loss
    assert result.written_bytes > sum(values.size for values in session.trainables().values())
    assert session.loss(ids, ids) == expected.loss(ids, ids)
    session.save_state(tmp_path / "state")
    again = mebp.Session(filed, lr=1e-2, return_gradients=False, spill_folder=tmp_path)
    again.load_state(tmp_path / "state")
    again.step(ids, ids)
    expected.step(ids, ids)
    session.step(ids, ids)
    for other in (again.trainables(), expected.trainables()):
        assert all(np.array_equal(values, other[key]) for key, values in session.trainables().items())
    session.save_model(tmp_path / "filed")
    expected.save_model(tmp_path / "whole")
    one, other = (load_file(tmp_path / folder / "model.safetensors") for folder in ("filed", "whole"))
    assert all(torch.equal(values, other[key]) for key, values in one.items())
    narrow = {key for key, values in one.items() if values.dtype == torch.bfloat16}
    assert narrow == ({key for key, values in one.items() if values.ndim == 2} if storage == "bf16" else set())


@pytest.mark.parametrize("storage", STORAGES)
def test_the_plan_is_the_sessions(tmp_path, storage):
    _, bundle = make(tmp_path, storage, spill="all", generate_len=32)
    plan = inspect(bundle)["plan"]
    trainables = {buffer["name"]: buffer for buffer in plan["buffers"]}["trainables"]
    largest = max(each["rows"] * each["columns"] for each in inspect(bundle)["trainables"])
    assert trainables["bytes"] == largest * (2 if storage == "bf16" else 4)
    assert trainables["source"] == "the model's own, in a file; of one tensor at once"
    peaks = {peak["name"]: peak["bytes"] for peak in plan["other_peaks"]}
    for optimizer in OPTIMIZERS:
        session = mebp.Session(bundle, optimizer=optimizer, return_gradients=False, spill_folder=tmp_path)
        assert session.plan["planned_peak_bytes"] == peaks[f"{optimizer}, gradients applied at once"], optimizer


def test_text_is_generated_from_the_file(tmp_path):
    model, bundle = make(tmp_path, "bf16", spill="all", generate_len=32)
    ids = models.token_ids(model, 1, 5).numpy()
    answer = mebp.Session(bundle, spill_folder=tmp_path).generate(ids, 6)
    filed = mebp.Session(bundle, generate_only=True)
    assert np.array_equal(filed.generate(ids, 6), answer)


def test_refusals(tmp_path):
    _, bundle = make(tmp_path, "bf16")
    moved = "and moves it back, which bf16 would round"
    with pytest.raises(mebp.Error, match=moved):
        mebp.Session(bundle, optimizer="mezo")
    command = [find_tool("mebpc"), tmp_path / "model.onnx", "--plan-only", "--seq-len", SEQUENCE, "--train", "full"]
    command += ["--weights", "bf16", "--optimizer", "mezo"]
    ran = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert ran.returncode == 2 and moved in ran.stderr and "give --weights f32 or another optimizer" in ran.stderr
