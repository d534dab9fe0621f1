# SPDX-License-Identifier: Apache-2.0
"""The adapter's way out to PEFT and back."""

import copy

import numpy as np
import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from safetensors.numpy import load_file

import mebp
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from mebp.verification.reference import load_weights
from support import models
from support.pipeline import make_bundle


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])
def test_peft_computes_the_same_logits(tmp_path, family):
    model = models.build(family)
    bundle = make_bundle(model, tmp_path, seq_len=32, batch=2)
    session = mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(tmp_path / "adapter")

    base = copy.deepcopy(model)
    load_weights(base, session.base_weights())
    adapted = PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    keys = {name.replace(".default.", ".") for name in adapted.state_dict() if "lora_" in name}
    assert load_file(tmp_path / "adapter" / "adapter_model.safetensors").keys() == keys == session.trainables().keys()

    ids = models.token_ids(model, 2, 27).numpy()
    with torch.no_grad():
        expected = adapted(input_ids=torch.from_numpy(ids)).logits.numpy()
    logits = session.logits(ids)
    assert logits.shape == expected.shape and logits.dtype == np.float32
    assert relative_error(logits, expected) < 1e-5
    # One row takes another kernel than many, which rounds in another order.
    assert relative_error(session.logits(ids, first=26, count=1)[:, 0], logits[:, 26]) < 1e-6


def test_an_adapter_comes_back_bitwise(tmp_path):
    bundle = make_bundle(models.build("llama"), tmp_path, seq_len=16)
    session, other = mebp.Session(bundle), mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(tmp_path / "adapter")
    other.load_adapter(tmp_path / "adapter")
    for key, values in session.trainables().items():
        assert np.array_equal(values, other.trainables()[key]), key


def test_generation_knows_what_the_model_knows(smollm2):
    session = mebp.Session(smollm2.bundle)
    prompt = smollm2.tokenizer.encode("The capital of France is")
    ids = session.generate([prompt], max_new_tokens=8, eos_token_id=smollm2.tokenizer.stop_tokens)
    assert "Paris" in smollm2.tokenizer.decode(ids[0].tolist())


def test_peft_opens_the_adapter_with_its_base(tmp_path, monkeypatch):
    model = models.build("llama")
    models.save(model, tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    bundle = make_bundle("base", tmp_path / "exported", seq_len=32, weights="f32")  # a path that is not whole
    session = mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(tmp_path / "adapter")
    monkeypatch.chdir("/")
    adapted = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "adapter").eval()
    assert adapted.peft_config["default"].base_model_name_or_path == str(tmp_path / "base")
    ids = models.token_ids(model, 1, 27).numpy()
    with torch.no_grad():
        expected = adapted(input_ids=torch.from_numpy(ids)).logits.numpy()
    assert relative_error(session.logits(ids), expected) < 1e-5
