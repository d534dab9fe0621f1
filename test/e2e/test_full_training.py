# SPDX-License-Identifier: Apache-2.0
"""Weights of the model itself are trained: their gradients against true float64, and what becomes of them."""

import subprocess

import numpy as np
import pytest

import mebp
from mebp.tools import find_tool
from support import models
from support.commands import TIMEOUT, refusal
from support.peaks import check_each_use, other_peaks
from support.pipeline import check, compare_gradients, make_bundle
from support.soak import SOAK

# Norms of every sort, biases, tables, positions, products, heads of their own and tied ones.
CASES = {
    "llama": ("llama", "*", {}),
    "llama, biases": ("llama", "*", {"attention_bias": True, "mlp_bias": True}),
    "qwen2, tied": ("qwen2", "*", {}),
    "qwen3": ("qwen3", "*", {}),
    "gemma3_text, tied": ("gemma3_text", "*", {}),
    "phi3": ("phi3", "*", {}),
    "phi3, products alone": ("phi3", "all-linear", {}),
    "gpt2, tied": ("gpt2", ["*ln_*", "*bias", "*wpe*", "*wte*"], {}),
    "persimmon, a layer norm of each head": ("persimmon", "*", {}),
    "stablelm, a layer norm for each head": ("stablelm", "*", {}),
    "the head alone": ("llama", "lm_head", {}),
}
SEQUENCE, BATCH = 40, 2
SCHEDULES = {"whole": {}, "chunks": {"chunk_size": 7}, "spaced": {"checkpoint_spacing": 2}}


def make(folder, name: str, **options) -> tuple:
    family, targets, overrides = CASES[name]
    model = models.build(family, **overrides)
    options = {"weights": "f32", "train": "full", "train_targets": targets} | options
    return model, make_bundle(model, folder, seq_len=SEQUENCE, batch=BATCH, **options)


def tokens(model, batch: int = BATCH, sequence: int = SEQUENCE) -> np.ndarray:
    return models.token_ids(model, batch, sequence).numpy()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
def test_gradients(tmp_path, show, name, schedule):
    model, bundle = make(tmp_path, name, **SCHEDULES[schedule])
    session = mebp.Session(bundle)
    begun, weights = session.trainables(), session.base_weights()
    assert all(np.array_equal(values, weights[key]) for key, values in begun.items())
    for batch, sequence in [(2, 40), (1, 29)]:
        ids = tokens(model, batch, sequence)
        labels = ids.copy()
        labels[:, 5:9] = -100
        result = compare_gradients(bundle, session, model, ids, labels)
        show(f"{name}, {schedule}, all of {len(begun)} tensors: {result}")
        check(result)


@pytest.mark.parametrize("schedule", ["whole", "chunks"])
def test_smollm2(smollm2, long_rows, tmp_path, show, schedule):
    """Nothing is frozen, and the embedding is the head."""
    bundle = tmp_path / "model.mebp"
    options = {"weights": "f32", "precision": "f32", "train": "full", "train_targets": "*"}
    tokens = 128 if SOAK else 32
    chunk = {"whole": 0, "chunks": 3 * tokens // 8}[schedule]
    mebp.compile(smollm2.folder / "model.onnx", bundle, seq_len=tokens, chunk_size=chunk, optimizer="sgd", **options)
    session = mebp.Session(bundle, optimizer="sgd")
    ids = long_rows[:1, :tokens]
    result = compare_gradients(bundle, session, smollm2.model, ids, ids)
    show(f"SmolLM2-135M, nothing frozen, {schedule}, {tokens} tokens: {result}")
    assert len(result.bundle.gradients) == 30 * 9 + 2
    check(result)


def test_gradients_in_bf16(tmp_path):
    import torch

    model, bundle = make(tmp_path, "llama, biases", weights="bf16", precision="bf16")
    ids = tokens(model)
    check(compare_gradients(bundle, mebp.Session(bundle), model, ids, ids, torch.bfloat16))


@pytest.mark.parametrize(("name", "threads"), [("llama", 1), ("qwen2, tied", 2)])
def test_steps_learn_and_resume_bitwise(tmp_path, name, threads):
    model, bundle = make(tmp_path, name)
    ids = tokens(model)
    session = mebp.Session(bundle, lr=1e-2, threads=threads)
    before = session.loss(ids, ids)
    for _ in range(3):
        result = session.step(ids, ids)
    session.save_state(tmp_path / "state")
    session.step(ids, ids)
    assert session.loss(ids, ids) < before / 2
    again = mebp.Session(bundle, lr=1e-2)
    again.load_state(tmp_path / "state")
    again.step(ids, ids)
    trained = again.trainables()
    assert all(np.array_equal(values, trained[key]) for key, values in session.trainables().items())
    assert result.peak_bytes > 0


@pytest.mark.parametrize("returned", [True, False])
def test_a_step_is_torchs(tmp_path, returned):
    import torch

    model, bundle = make(tmp_path, "qwen2, tied")
    ids = tokens(model)
    before, (_, gradients) = (session := mebp.Session(bundle)).trainables(), session.loss_and_gradients(ids, ids)
    session = mebp.Session(bundle, optimizer="sgd", lr=0.1, return_gradients=returned)
    session.step(ids, ids)
    for key, values in session.trainables().items():
        parameter = torch.nn.Parameter(torch.from_numpy(before[key].copy()))
        parameter.grad = torch.from_numpy(gradients[key])
        torch.optim.SGD([parameter], lr=0.1).step()
        np.testing.assert_allclose(values, parameter.detach().numpy(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["llama, biases", "qwen2, tied", "gpt2, tied"])
def test_the_plan_is_the_sessions(tmp_path, name):
    _, bundle = make(tmp_path, name)
    peaks = other_peaks(bundle)
    session = check_each_use(bundle, "adamw", peaks)
    elements = sum(values.size for values in session.trainables().values())
    assert session.plan["arenas"]["trainables"] >= 4 * elements


def test_there_is_no_adapter(tmp_path):
    model, bundle = make(tmp_path, "llama")
    session = mebp.Session(bundle)
    with pytest.raises(mebp.Error, match="compiled with --train full, so it has no adapter"):
        session.save_adapter(tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()
    ids = tmp_path / "tokens.npy"
    np.save(ids, tokens(model).astype(np.int32))
    command = [find_tool("mebp-run"), bundle, "--tokens", ids, "--steps", "1", "--adapter-out", tmp_path / "adapter"]
    ran = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert ran.returncode == 2 and "so it has no adapter" in ran.stderr and not ran.stdout.count("step 1")
    assert "own weights" in repr(session)
    assert "so it has no adapter" in refusal("merge", bundle, "--adapter", tmp_path, "-o", tmp_path / "merged")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "int4"}, "would be stored as int8, which a step cannot change; give --weights bf16 or f32"),
        ({"train_targets": ["*nothing*"]}, r"--train-targets '\*nothing\*': matches no parameter"),
        ({"lora": mebp.LoRA()}, "--lora-rank: is not for --train full; leave it out, or give --train lora"),
        ({"train": "lora", "train_targets": "*"}, "--train-targets: is not for --train lora; leave it out"),
        ({"train": "some", "train_targets": None}, "--train: some not in {lora,full}"),
    ],
)
def test_refusals(tmp_path, options, message):
    with pytest.raises(mebp.Error, match=message):
        make(tmp_path, "llama", **options)
    assert not (tmp_path / "model.mebp").exists()
