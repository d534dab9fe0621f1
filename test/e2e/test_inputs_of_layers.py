# SPDX-License-Identifier: Apache-2.0
"""Models whose layers take inputs of the ids beside what flows, and read the keys and values of an earlier layer; and
routers whose weights are multiplied by a number of each expert: Gemma 4."""

from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

import mebp
from mebp.cli import main
from mebp.inspect import inspect
from mebp.tools import find_tool, run_tool
from mebp.verification.comparison import relative_error
from support import models
from support.pipeline import compare_gradients, make_bundle

SEQUENCE = 75  # more than a chunk of 64, and more than four windows
LORA = mebp.LoRA(rank=3, alpha=7, targets=["all-linear"])
SHARED_LAYER = "base_model.model.model.per_layer_model_projection"


def build(folder: Path, family: str = "gemma4_small", **options: object) -> tuple[torch.nn.Module, Path]:
    folder.mkdir(exist_ok=True)
    model = models.build(family)
    return model, make_bundle(model, folder, **{"seq_len": SEQUENCE, "weights": "f32", "lora": LORA, **options})


def tokens(batch: int, length: int) -> np.ndarray:
    return np.random.default_rng(length).integers(3, 330, (batch, length)).astype(np.int32)


def perturb(session: mebp.Session) -> None:
    """B begins as zeros, which hide the gradients of A."""
    generator = np.random.default_rng(0)
    values = session.trainables()
    session.set_trainables(
        {name: 0.05 * generator.standard_normal(each.shape).astype(np.float32) for name, each in values.items()}
    )


@pytest.mark.parametrize("schedule", [{}, {"chunk_size": 64}, {"chunk_size": 16, "checkpoint_spacing": 4}])
@pytest.mark.parametrize("family", ["gemma4_small", "gemma4_experts"])
def test_gradients_are_those_of_float64(tmp_path, family, schedule):
    model, bundle = build(tmp_path, family, batch=3, **schedule)
    session = mebp.Session(bundle)
    perturb(session)
    for batch, length in ((1, SEQUENCE), (2, 70), (3, 33)):
        ids = tokens(batch, length)
        found = compare_gradients(bundle, session, model, ids, ids.astype(np.int64))
        assert found.agrees, (batch, length, found.beyond)


def test_what_is_shared_is_forgotten_from_step_to_step(tmp_path):
    """Its cotangent is a sum, which a second sequence must not find."""
    _, bundle = build(tmp_path)
    session = mebp.Session(bundle)
    perturb(session)
    ids = tokens(1, SEQUENCE)
    once = session.loss_and_gradients(ids, ids.astype(np.int64))
    other = tokens(1, 40)
    session.loss_and_gradients(other, other.astype(np.int64))
    again = session.loss_and_gradients(ids, ids.astype(np.int64))
    assert once[0] == again[0]
    assert all(np.array_equal(gradient, again[1][name]) for name, gradient in once[1].items())


def test_full_training_has_every_weight_but_the_tables(tmp_path):
    model, bundle = build(tmp_path, lora=None, train="full", optimizer="sgd", chunk_size=16)
    session = mebp.Session(bundle)
    linear = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    assert session.trainables().keys() == linear - {"lm_head.weight"}
    ids = tokens(1, SEQUENCE)
    assert compare_gradients(bundle, session, model, ids, ids.astype(np.int64)).agrees


def test_bf16_is_as_near_as_torch(tmp_path):
    _, exact = build(tmp_path / "f32")
    _, narrow = build(tmp_path / "bf16", precision="bf16")
    ids = tokens(1, SEQUENCE)
    gradients = []
    for bundle in (exact, narrow):
        session = mebp.Session(bundle)
        perturb(session)
        gradients.append(session.loss_and_gradients(ids, ids.astype(np.int64))[1])
    for name, gradient in gradients[0].items():
        assert relative_error(gradients[1][name], gradient) < 0.1, name


@pytest.mark.parametrize("chunk", [0, 16])
def test_samples_that_share_a_row_do_not_see_each_other(tmp_path, chunk):
    _, packed = build(tmp_path / "packed", seq_len=64, chunk_size=chunk, packing=True)
    _, alone = build(tmp_path / "alone", seq_len=64, chunk_size=chunk)
    lengths = [16, 1, 14, 25]
    begins = np.cumsum([0, *lengths])
    ids = tokens(1, sum(lengths))
    labels = ids.astype(np.int64)
    labels[0, begins[:-1]] = -100
    together, apart = mebp.Session(packed), mebp.Session(alone)
    perturb(together)
    perturb(apart)
    starts = np.repeat(begins[:-1], lengths).astype(np.int32)[None]
    _, gradients = together.loss_and_gradients(ids, labels, starts)
    sums: dict[str, np.ndarray] = {}
    for begin, length in zip(begins, lengths, strict=False):
        if length > 1:
            part = ids[:, begin : begin + length]
            for name, gradient in apart.loss_and_gradients(part, part.astype(np.int64))[1].items():
                sums[name] = sums.get(name, 0) + (length - 1) * gradient
    for name, gradient in gradients.items():
        assert relative_error(gradient, sums[name] / sum(length - 1 for length in lengths)) < 2e-5, name


@pytest.mark.parametrize("family", ["gemma4_small", "gemma4_experts"])
def test_text_is_that_of_transformers(tmp_path, family):
    """Beyond the windows; and a prompt has the same bits wherever it is cut."""
    model, bundle = build(tmp_path, family, seq_len=24, batch=2, generate_len=64)
    session = mebp.Session(bundle)
    ids = tokens(2, 17)
    theirs = model.generate(
        torch.from_numpy(ids).long(), max_new_tokens=32, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    assert np.array_equal(session.generate(ids, 32, eos_token_id=[]), theirs.numpy())
    whole = session.keys_and_values().logits(ids[:1])
    for cut in range(2, 16):
        again = session.keys_and_values()
        again.logits(ids[:1, :cut])
        assert np.array_equal(again.logits(ids[:1]), whole), cut


def test_drafts_change_no_token(tmp_path):
    _, bundle = build(tmp_path, seq_len=24, generate_len=64)
    session = mebp.Session(bundle)
    ids = np.tile(tokens(1, 6), 3)
    assert np.array_equal(
        session.generate(ids, 24, eos_token_id=[], drafts=3), session.generate(ids, 24, eos_token_id=[])
    )


def test_layers_share_an_adapter(tmp_path):
    """Of the layer that all layers take a part of, as PEFT has it; the adapter and what it is merged into give the
    same logits there."""
    model, bundle = build(tmp_path, seq_len=24)
    session = mebp.Session(bundle)
    linear = {name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)} - {"lm_head"}
    adapted = {name.removeprefix("base_model.model.").rpartition(".lora_")[0] for name in session.trainables()}
    assert adapted == linear
    assert session.trainables()[f"{SHARED_LAYER}.lora_B.weight"].shape == (6 * 18, 3)
    perturb(session)
    session.save_adapter(tmp_path / "adapter")
    mebp.merge(bundle, tmp_path / "adapter", tmp_path / "merged", dtype="f32")
    ids = tokens(2, 24)[:1]
    with torch.no_grad():
        inputs = torch.from_numpy(ids).long()
        merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32)(input_ids=inputs)
        theirs = PeftModel.from_pretrained(model, tmp_path / "adapter")(input_ids=inputs)
    assert relative_error(session.logits(ids), theirs.logits.numpy()) < 2e-5
    assert relative_error(merged.logits.numpy(), theirs.logits.numpy()) < 2e-5


def test_numbers_that_layers_are_multiplied_by_are_kept(tmp_path):
    """They are constants of the graph, and tensors of the model: what is merged computes the same."""
    model = models.build("gemma4_small")
    for index, layer in enumerate(model.model.layers):
        layer.layer_scalar.fill_(0.5 + 0.1 * index)
    bundle = make_bundle(model, tmp_path, seq_len=24, weights="f32", lora=LORA)
    session = mebp.Session(bundle)
    perturb(session)
    session.save_adapter(tmp_path / "adapter")
    mebp.merge(bundle, tmp_path / "adapter", tmp_path / "merged", dtype="f32")
    ids = tokens(1, 24)
    with torch.no_grad():
        merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32)
        theirs = merged(input_ids=torch.from_numpy(ids).long()).logits
    assert merged.model.layers[2].layer_scalar == np.float32(0.7)
    assert relative_error(session.logits(ids), theirs.numpy()) < 2e-5
    assert mebp.verify(bundle).agrees


def test_subspaces_are_found_beside_shared_cotangents(tmp_path):
    _, bundle = build(tmp_path, lora=None, train="full", optimizer="galore", galore_rank=8)
    session = mebp.Session(bundle, optimizer="galore", lr=1e-3)
    ids = tokens(1, SEQUENCE)
    losses = [session.step(ids, ids.astype(np.int64)).loss for _ in range(6)]
    assert losses[-1] < losses[0]


def test_mezo_needs_no_cotangents(tmp_path):
    _, bundle = build(tmp_path, optimizer="mezo")
    session = mebp.Session(bundle, optimizer="mezo", lr=1e-3)
    ids = tokens(1, SEQUENCE)
    assert np.isfinite(session.step(ids, ids.astype(np.int64)).loss)


def test_a_split_is_refused(tmp_path):
    """The server would have ids, and what its layers read of others."""
    build(tmp_path)
    call = [find_tool("mebpc"), str(tmp_path / "model.onnx"), "-o", str(tmp_path / "half.mebp")]
    with pytest.raises(mebp.Error, match="which stays on the device"):
        run_tool([*call, "--adapter=private-lora", "--split=private-lora", "--device-first=1", "--device-last=1"])


def test_what_layers_share_is_in_the_plan(tmp_path, capsys):
    _, bundle = build(tmp_path)
    assert main(["inspect", str(bundle)]) == 0
    assert "shared" in capsys.readouterr().out
    numbers = [each["name"] for each in inspect(bundle)["weights"] if each["name"].startswith("mebp.part.")]
    assert len(numbers) == 6
    assert not any(name.startswith("mebp.") for name in mebp.Session(bundle).base_weights())
