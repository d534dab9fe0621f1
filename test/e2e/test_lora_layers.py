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
CHOICES = {"last:1": [2], "1-1": [1], "0-1": [0, 1], "last:3": [0, 1, 2]}
CASES = {
    "usual": {},
    "bf16": {"precision": "bf16"},
    "chunks": {"chunk_size": 7},
    "spacing": {"checkpoint_spacing": 2},
    "disk": {"spill": "checkpoints"},
    "value head": {"value_head": True},
    "router loss": {"router_aux_loss_coef": 0.5},
    "packing": {"packing": True},
    "generation": {"generate_len": SEQUENCE},
    "dropout": {"lora": mebp.LoRA(dropout=0.5)},
}


def build(case: str = ""):
    return models.build("qwen3_moe" if case == "router loss" else "llama", num_hidden_layers=LAYERS)


def layer_of(key: str) -> int | None:
    return next((int(part) for part in key.split(".") if part.isdigit()), None)


def pair(folder, model, layers: str, session_options=None, **options):
    """A session that trains `layers`, and one that trains all with no effect of the others: their B is zero."""
    sessions = []
    for name, chosen in (("some", layers), ("all", None)):
        (folder / name).mkdir()
        bundle = make_bundle(model, folder / name, seq_len=SEQUENCE, lora_layers=chosen, **options)
        sessions.append(mebp.Session(bundle, **(session_options or {})))
    some, whole = sessions
    randomise_adapter(some)
    whole.set_trainables({**whole.trainables(), **some.trainables()})
    return some, whole


@pytest.mark.parametrize("layers", CHOICES)
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_beside_all_others(tmp_path, case, layers):
    if case != "usual" and layers not in ("last:1", "0-1"):
        pytest.skip("the usual plan has every choice")
    model = build(case)
    some, whole = pair(tmp_path, model, layers, **CASES[case])
    ids = models.token_ids(model, 1, SEQUENCE).numpy()
    loss, gradients = some.loss_and_gradients(ids, ids)
    expected_loss, expected = whole.loss_and_gradients(ids, ids)
    assert loss == expected_loss
    chosen = {key for key in expected if layer_of(key) in (None, *CHOICES[layers])}
    assert gradients.keys() == chosen and any(np.any(values) for values in gradients.values())
    for key, values in gradients.items():
        assert np.array_equal(values, expected[key]), key


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
