# SPDX-License-Identifier: Apache-2.0
"""LoRA of the head: its gradients against true float64, and what becomes of the adapter."""

import copy
import json
import subprocess

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

import mebp
from mebp.inspect import inspect
from mebp.tools import find_tool
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from mebp.verification.reference import load_weights
from support import models
from support.commands import TIMEOUT
from support.pipeline import check, compare_gradients, make_bundle
from support.soak import SOAK

HEAD_A, HEAD_B = (f"base_model.model.lm_head.lora_{factor}.weight" for factor in "AB")
SEQUENCE, BATCH = 40, 2
# Heads of their own and tied ones; ranks that the kernels take with a layer, and one that they do not.
CASES = {
    "llama, the head alone": ("llama", "lm_head", 8),
    "llama": ("llama", ["q_proj", "lm_head"], 8),
    "qwen2, tied, the head alone": ("qwen2", "lm_head", 3),
    "qwen2, tied": ("qwen2", ["all-linear", "lm_head"], 8),
    "gemma3_text, tied": ("gemma3_text", ["q_proj", "lm_head"], 8),
    "gpt2, tied": ("gpt2", ["c_attn", "lm_head"], 8),
    "llama, rank 50 of 96": ("llama", ["q_proj", "lm_head"], 50),
}
SCHEDULES = {
    "whole": {},
    "chunks": {"chunk_size": 7},
    "tiles": {"tiles": (16, 37)},
    "spaced": {"checkpoint_spacing": 2},
}


def make(folder, name: str, tiles: tuple[int, int] | None = None, **options) -> tuple:
    """`tiles`: rows and columns of the loss's, which mebpc alone has options for."""
    family, targets, rank = CASES[name]
    model = models.build(family)
    options = {"lora": mebp.LoRA(rank=rank, alpha=12, targets=targets)} | options
    bundle = make_bundle(model, folder, seq_len=SEQUENCE, batch=BATCH, **options)
    if tiles:
        names = targets if isinstance(targets, str) else ",".join(targets)
        given = [f"--lora-rank={rank}", "--lora-alpha=12", f"--lora-targets={names}"]
        given += [f"--loss-rows={tiles[0]}", f"--loss-columns={tiles[1]}", f"--seq-len={SEQUENCE}", f"--batch={BATCH}"]
        stored = {"weights": "int4", "precision": "f32"} | options
        given += [f"--{option.replace('_', '-')}={stored[option]}" for option in stored if option != "lora"]
        bundle = folder / "tiled.mebp"
        subprocess.run([find_tool("mebpc"), folder / "model.onnx", "-o", bundle, *given], check=True, timeout=TIMEOUT)
    return model, bundle


def tokens(model, batch: int = BATCH, sequence: int = SEQUENCE) -> np.ndarray:
    return models.token_ids(model, batch, sequence).numpy()


def learned(bundle, **options) -> mebp.Session:
    session = mebp.Session(bundle, **options)
    randomise_adapter(session)
    return session


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
def test_gradients(tmp_path, show, name, schedule):
    model, bundle = make(tmp_path, name, **SCHEDULES[schedule])
    session = learned(bundle)
    assert session.trainables().keys() >= {HEAD_A, HEAD_B}
    for batch, sequence in [(2, 40), (1, 29)]:
        ids = tokens(model, batch, sequence)
        labels = ids.copy()
        labels[:, 5:9] = -100
        result = compare_gradients(bundle, session, model, ids, labels)
        head = max(result.bundle.gradients[key] for key in (HEAD_A, HEAD_B))
        show(f"{name}, {schedule}, {batch} x {sequence}: {result}; the head's {head:.1e}")
        check(result)


@pytest.mark.parametrize("weights", ["f32", "bf16", "int8", "int4"])
def test_how_the_head_is_stored(tmp_path, weights):
    options = {"weights": weights, "embedding_weights": weights, "tiles": (16, 37)}
    model, bundle = make(tmp_path, "qwen2, tied, the head alone", **options)
    ids = tokens(model)
    check(compare_gradients(bundle, learned(bundle), model, ids, ids))


@pytest.mark.parametrize("name", ["llama", "qwen2, tied", "llama, rank 50 of 96"])
def test_gradients_in_bf16(tmp_path, show, name):
    model, bundle = make(tmp_path, name, weights="bf16", precision="bf16", tiles=(32, 64))
    ids = tokens(model)
    result = compare_gradients(bundle, learned(bundle), model, ids, ids, torch.bfloat16)
    head = [max(errors.gradients[key] for key in (HEAD_A, HEAD_B)) for errors in (result.bundle, result.torch)]
    show(f"{name}, bf16: {result}; the head's {head[0]:.1e} (torch {head[1]:.1e})")
    check(result)
    assert head[0] <= head[1]


@pytest.mark.parametrize("name", ["llama", "qwen2, tied"])
def test_the_reference_kernels_agree(tmp_path, name):
    model, bundle = make(tmp_path, name, tiles=(16, 37))
    ids = tokens(model)
    check(compare_gradients(bundle, learned(bundle, reference_kernels=True), model, ids, ids))


def test_smollm2(smollm2, long_rows, tmp_path, show):
    """Its vocabulary is many tiles, and its head the embedding."""
    bundle = tmp_path / "model.mebp"
    lora = mebp.LoRA(targets=["q_proj", "lm_head"])
    tokens = 128 if SOAK else 64
    mebp.compile(
        smollm2.folder / "model.onnx", bundle, seq_len=tokens, chunk_size=3 * tokens // 8, precision="f32", lora=lora
    )
    session = mebp.Session(bundle)
    randomise_adapter(session, scale=0.02)
    ids = long_rows[:1, :tokens]
    result = compare_gradients(bundle, session, smollm2.model, ids, ids)
    head = max(result.bundle.gradients[key] for key in (HEAD_A, HEAD_B))
    show(f"SmolLM2-135M, q_proj and the head, {tokens} tokens: {result}; the head's {head:.1e}")
    check(result)


def test_all_linear_leaves_it_out(tmp_path):
    _, bundle = make(tmp_path, "llama", lora=mebp.LoRA(targets="all-linear"))
    assert not any("lm_head" in key for key in mebp.Session(bundle).trainables())


@pytest.mark.parametrize("name", ["llama", "qwen2, tied"])
def test_steps_learn_and_resume_bitwise(tmp_path, name):
    model, bundle = make(tmp_path, name)
    ids = tokens(model)
    session = mebp.Session(bundle, lr=1e-2)
    before = session.loss(ids, ids)
    for _ in range(3):
        session.step(ids, ids)
    session.save_state(tmp_path / "state")
    session.step(ids, ids)
    assert session.loss(ids, ids) < before and np.any(session.trainables()[HEAD_B])
    again = mebp.Session(bundle, lr=1e-2, threads=1)
    again.load_state(tmp_path / "state")
    again.step(ids, ids)
    assert all(np.array_equal(values, again.trainables()[key]) for key, values in session.trainables().items())


@pytest.mark.parametrize("name", ["llama", "qwen2, tied", "gpt2, tied", "llama, rank 50 of 96"])
def test_the_plan_is_the_sessions(tmp_path, name):
    _, bundle = make(tmp_path, name)
    peaks = {peak["name"]: peak["bytes"] for peak in inspect(bundle)["plan"]["other_peaks"]}
    uses = {
        "gradients applied at once": {"return_gradients": False},
        "clipped or returned": {"return_gradients": True},
        "accumulated": {"return_gradients": False, "accumulate": True},
    }
    for use, options in uses.items():
        assert mebp.Session(bundle, **options).plan["planned_peak_bytes"] == peaks[f"adamw, {use}"], use


@pytest.mark.parametrize("name", ["llama, the head alone", "llama", "qwen2, tied", "gemma3_text, tied", "gpt2, tied"])
def test_peft_computes_the_same_logits(tmp_path, name):
    model, bundle = make(tmp_path, name)
    session = learned(bundle)
    session.save_adapter(tmp_path / "adapter")
    settings = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert "lm_head" in settings["target_modules"]

    base = copy.deepcopy(model)
    load_weights(base, session.base_weights())
    adapted = PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    keys = {key.replace(".default.", ".") for key in adapted.state_dict() if "lora_" in key}
    assert load_file(tmp_path / "adapter" / "adapter_model.safetensors").keys() == keys == session.trainables().keys()
    ids = tokens(model)
    with torch.no_grad():
        expected = adapted(input_ids=torch.from_numpy(ids)).logits.numpy()
    assert relative_error(session.logits(ids), expected) < 1e-5

    # As PEFT saves it, without the base's own head.
    adapted.save_pretrained(tmp_path / "peft", save_embedding_layers=False)
    other = mebp.Session(bundle)
    other.load_adapter(tmp_path / "peft")
    assert all(np.array_equal(values, other.trainables()[key]) for key, values in session.trainables().items())


@pytest.mark.parametrize("name", ["llama", "qwen2, tied", "gpt2, tied"])
def test_merged_it_computes_the_same(tmp_path, name):
    """A tied head becomes one of its own, for its adapter is not the embedding's."""
    family, *_ = CASES[name]
    source = models.save(models.build(family), tmp_path / "source")
    lora = mebp.LoRA(targets=CASES[name][1])
    bundle = make_bundle(source, tmp_path, seq_len=SEQUENCE, batch=BATCH, lora=lora)
    session = learned(bundle)
    session.save_adapter(tmp_path / "adapter")
    result = mebp.merge(bundle, tmp_path / "adapter", tmp_path / "merged")
    assert "lm_head.weight" in result.changes and not any("embed" in key or "wte" in key for key in result.changes)
    assert not json.loads((tmp_path / "merged" / "config.json").read_text())["tie_word_embeddings"]
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged").float().eval()
    ids = tokens(merged)
    with torch.no_grad():
        expected = merged(input_ids=torch.from_numpy(ids)).logits.numpy()
    assert relative_error(session.logits(ids), expected) < 1e-4
    # Compiled again, it has two weights.
    again = make_bundle(tmp_path / "merged", tmp_path / "again", seq_len=SEQUENCE, batch=BATCH, weights="f32")
    assert relative_error(mebp.Session(again).logits(ids), expected) < 1e-4


@pytest.mark.parametrize("name", ["llama", "qwen2, tied"])
def test_verify_agrees(tmp_path, name):
    family, targets, *_ = CASES[name]
    source = models.save(models.build(family), tmp_path / "source")
    bundle = make_bundle(source, tmp_path, seq_len=SEQUENCE, lora=mebp.LoRA(targets=targets))
    found = mebp.verify(bundle)
    assert found.agrees and {HEAD_A, HEAD_B} <= found.bundle.gradients.keys(), found.beyond


@pytest.mark.parametrize("name", ["qwen2, tied", "llama, rank 50 of 96"])
def test_generation_has_it(tmp_path, name):
    """Token by token, with states, it chooses what whole sequences' logits do."""
    model, bundle = make(tmp_path, name, generate_len=SEQUENCE)
    session = mebp.Session(bundle)
    assert session.generates
    ids = tokens(model)[:, :5]
    without = session.generate(ids, max_new_tokens=12)
    randomise_adapter(session, scale=0.5)
    found = session.generate(ids, max_new_tokens=12)
    assert not np.array_equal(found, without)
    for length in range(5, found.shape[1]):
        logits = session.logits(found[:, :length], first=length - 1)[:, 0]
        assert np.array_equal(found[:, length], logits.argmax(-1))
