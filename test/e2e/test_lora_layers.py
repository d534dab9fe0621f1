# SPDX-License-Identifier: Apache-2.0
"""--lora-layers: what is trained in some layers has the gradients that it has beside all others, and what lies below is
neither differentiated nor kept."""

import json

import numpy as np
import pytest
import torch
from peft import PeftModel

import mebp
from mebp.inspect import describe_trained, inspect
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from mebp.verification.reference import load_weights
from support import models
from support.commands import refusal
from support.exports import export
from support.pipeline import check, compare_gradients, make_bundle

SEQUENCE, LAYERS = 24, 3
EXACT = {"weights": "f32", "embedding_weights": "f32"}
CASES = {
    "usual": {},
    "bf16": {"precision": "bf16"},
    "chunks": {"chunk_size": 7},
    "spacing": {"checkpoint_spacing": 2},
    "disk": {"spill": "checkpoints"},
    "value head": {"value_head": True},
    "router loss": {"router_aux_loss_coef": 0.5},
    "packing": {"packing": True},
    "the head, too": {"lora": mebp.LoRA(targets=["q_proj", "down_proj", "lm_head"])},
    "full": {"train": "full", **EXACT},
    "the embedding, too": {"train": "full", "train_targets": ["all-linear", "model.embed_tokens.weight"], **EXACT},
}


def build(case: str = ""):
    return models.build("qwen3_moe" if case == "router loss" else "llama", num_hidden_layers=LAYERS)


def layer_of(key: str) -> int | None:
    return next((int(part) for part in key.split(".") if part.isdigit()), None)


def compile_pair(folder, model, layers: str, **options):
    """A bundle that trains `layers`, and one that trains all."""
    for name, chosen in (("some", layers), ("all", None)):
        (folder / name).mkdir()
        yield make_bundle(model, folder / name, seq_len=SEQUENCE, lora_layers=chosen, **options)


def open_pair(some, whole, **options):
    """Sessions that compute the same: of layers that one alone adapts, B is zero."""
    sessions = [mebp.Session(bundle, **options) for bundle in (some, whole)]
    randomise_adapter(sessions[0])
    sessions[1].set_trainables({**sessions[1].trainables(), **sessions[0].trainables()})
    return sessions


def expect_same(found: dict, among: dict) -> None:
    assert any(np.any(values) for values in found.values())
    for key, values in found.items():
        assert np.array_equal(values, among[key]), key


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_beside_all_others(tmp_path, case, count):
    """Bit for bit: what is below has no part in them."""
    model = build(case)
    some, whole = open_pair(*compile_pair(tmp_path, model, f"last:{count}", **CASES[case]))
    ids = models.token_ids(model, 1, SEQUENCE).numpy()
    loss, gradients = some.loss_and_gradients(ids, ids)
    expected_loss, expected = whole.loss_and_gradients(ids, ids)
    assert loss == expected_loss
    of_layers = {key for key in expected if layer_of(key) is not None}
    last = {key for key in of_layers if layer_of(key) >= LAYERS - count}
    assert gradients.keys() == expected.keys() - of_layers | last
    expect_same(gradients, expected)


def test_preferences_have_the_same_reference(tmp_path):
    """What DPO compares with: log-probabilities without the adapter; and what it sends back."""
    model = build()
    some, whole = open_pair(*compile_pair(tmp_path, model, "last:1"), accumulate=True)
    ids = models.token_ids(model, 1, SEQUENCE).numpy()
    assert np.array_equal(some.logprobs(ids, adapter=False), whole.logprobs(ids, adapter=False))
    assert not np.array_equal(some.logprobs(ids, adapter=False), some.logprobs(ids))
    coefficients = np.random.default_rng(0).normal(size=(1, SEQUENCE - 1))
    for session in (some, whole):
        session.sequence(ids).backward(coefficients)
    expect_same(some.gradients(), whole.gradients())


def test_mezo_moves_what_is_chosen(tmp_path):
    model = build()
    some, whole = open_pair(*compile_pair(tmp_path, model, "last:1"), optimizer="mezo", lr=1e-3)
    ids = models.token_ids(model, 1, SEQUENCE).numpy()
    assert some.loss(ids, ids) == whole.loss(ids, ids)
    before = some.trainables()
    some.step(ids, ids)
    after = some.trainables()
    assert {layer_of(key) for key in after} == {LAYERS - 1}
    assert all(not np.array_equal(after[key], before[key]) for key in after)


@pytest.mark.parametrize("spacing, places", [(1, [1, 2, 3]), (2, [1, 2, 2])])
def test_layers_below_keep_nothing(tmp_path, spacing, places):
    model = build()
    bundles = []
    for count in (1, 2, 3):
        (tmp_path / str(count)).mkdir()
        bundles.append(make_bundle(model, tmp_path / str(count), seq_len=SEQUENCE, lora_layers=f"last:{count}",
                                   checkpoint_spacing=spacing))  # fmt: skip
    kept = [mebp.Session(bundle).plan["arenas"]["checkpoints"] for bundle in bundles]
    assert [each // kept[0] for each in kept] == places
    for count, bundle in enumerate(bundles, 1):
        with_backward = [block["name"] for block in inspect(bundle)["blocks"] if "backward" in block["programs"]]
        assert len(with_backward) == count


@pytest.mark.parametrize("layers", ["last:1", "1-1"])
def test_gradients_are_torchs(tmp_path, show, layers):
    model = build()
    bundle = make_bundle(model, tmp_path, seq_len=SEQUENCE, lora_layers=layers)
    session = mebp.Session(bundle)
    randomise_adapter(session)
    ids = models.token_ids(model, 1, SEQUENCE).numpy()
    result = compare_gradients(bundle, session, model, ids, ids)
    show(f"{layers}: {result}")
    check(result)
