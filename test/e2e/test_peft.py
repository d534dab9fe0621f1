# SPDX-License-Identifier: Apache-2.0
"""Adapters that PEFT made: taken where the session computes what PEFT does, refused by name where it does not."""

import copy

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

import mebp
from mebp.verification.comparison import relative_error
from mebp.verification.reference import load_weights
from support import models
from support.exports import export
from support.pipeline import make_bundle

DEFAULTS = {"r": 8, "lora_alpha": 16, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def model_and_bundle(request, tmp_path_factory):
    model = models.build(request.param)
    return model, make_bundle(model, tmp_path_factory.mktemp(request.param), seq_len=32)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return make_bundle(models.build("llama"), tmp_path_factory.mktemp("llama"), seq_len=32)


def make_adapter(model, folder, dtype=torch.float32, **options):
    """A random adapter on `model`, saved by PEFT."""
    adapted = get_peft_model(model, LoraConfig(**{**DEFAULTS, **options})).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.data = (0.05 * torch.randn(parameter.shape, generator=generator)).to(dtype)
    adapted.save_pretrained(folder)
    return adapted


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_an_adapter_of_peft_computes_the_same(model_and_bundle, tmp_path, dtype):
    model, bundle = model_and_bundle
    session = mebp.Session(bundle)
    base = copy.deepcopy(model)
    load_weights(base, session.base_weights())
    adapted = make_adapter(base, tmp_path / "adapter", dtype, lora_dropout=0.1)
    session.load_adapter(tmp_path / "adapter")
    ids = models.token_ids(model, 1, 20)
    with torch.no_grad():
        expected = adapted.float()(input_ids=ids).logits.numpy()
    assert relative_error(session.logits(ids.numpy()), expected) < 1e-5
    # With the adapter's name in the keys, as a state_dict of PEFT's model has them.
    file, before = tmp_path / "adapter" / "adapter_model.safetensors", session.trainables()
    save_file({key.replace(".weight", ".default.weight"): values for key, values in load_file(file).items()}, file)
    named = mebp.Session(bundle)
    named.load_adapter(tmp_path / "adapter")
    assert all(np.array_equal(values, before[key]) for key, values in named.trainables().items())


@pytest.mark.parametrize(
    "words, options",
    [
        ("adapter_config.json: use_dora is not", {"use_dora": True}),
        ("use_rslora is true, .* compile with --rslora", {"use_rslora": True}),
        ("adapter_config.json: rank_pattern is not", {"rank_pattern": {"q_proj": 4}}),
        ("adapter_config.json: alpha_pattern is not", {"alpha_pattern": {"q_proj": 4}}),
        ("adapter_config.json: modules_to_save is not", {"modules_to_save": ["lm_head"]}),
        ("adapter_config.json: bias is not", {"bias": "lora_only"}),
        ("adapter_config.json: lora_bias is not", {"lora_bias": True}),
        (
            "layers_to_transform is 0, the bundle trains layer 1, too; compile with these --lora-layers",
            {"layers_to_transform": 0, "target_modules": ["q_proj"]},
        ),
        ("adapter_config.json: init_lora_weights is 'pissa'", {"init_lora_weights": "pissa"}),
        ("r is 4, .* compile with --lora-rank 4", {"r": 4}),
        ("lora_alpha is 8, .* compile with --lora-alpha 8", {"lora_alpha": 8}),
        ("lacks '.*k_proj.*this one has q_proj,v_proj", {"target_modules": ["q_proj", "v_proj"]}),
        ("lm_head.*only LoRA of linear layers", {"target_modules": ["q_proj", "lm_head"]}),
        ("embed_tokens.*only LoRA of linear layers", {"target_modules": ["q_proj", "embed_tokens"]}),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_another_kind_is_refused_by_name(llama, tmp_path, words, options):
    refuse(llama, models.build("llama"), tmp_path, words, **options)


@pytest.mark.parametrize(
    "words, family, overrides",
    [
        ("is 8 x 64, the bundle's is 8 x 96; use an adapter of the same base", "llama", {"hidden_size": 64}),
        ("has '.*layers.3.*', which this bundle does not train", "llama", {"num_hidden_layers": 4}),
        ("lacks '.*layers.2.*', which this bundle trains", "llama", {"num_hidden_layers": 2}),
        ("fan_in_fan_out is set", "gpt2", {}),
    ],
)
def test_an_adapter_of_another_model_is_refused(llama, tmp_path, words, family, overrides):
    refuse(llama, models.build(family, **overrides), tmp_path, words)


def refuse(bundle, model, folder, words, **options):
    make_adapter(model, folder / "adapter", **options)
    session = mebp.Session(bundle)
    before = session.trainables()
    with pytest.raises(mebp.Error, match=words):
        session.load_adapter(folder / "adapter")
    assert all(np.array_equal(values, before[key]) for key, values in session.trainables().items())


def test_an_adapter_for_fewer_modules_says_how_to_compile(llama, tmp_path):
    model = models.build("llama")
    exported = tmp_path / "model.onnx"
    export(model, exported, seq_len=32)
    lora = mebp.LoRA(rank=8, alpha=16, targets="q_proj")
    mebp.compile(exported, tmp_path / "q.mebp", seq_len=32, precision="f32", lora=lora)
    words = "k_proj.*, which this bundle does not train; compile its base model with --lora-targets k_proj,q_proj"
    refuse(tmp_path / "q.mebp", model, tmp_path, words, target_modules=["q_proj", "k_proj"])
