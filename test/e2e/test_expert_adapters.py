# SPDX-License-Identifier: Apache-2.0
"""LoRA on experts and routers: PEFT's target_parameters, in gradients, in files both ways, and merged."""

import json

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

import mebp
from mebp.cli import main
from mebp.expert_adapters import unreached
from mebp.inspect import inspect
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from mebp.verification.reference import load_weights
from support import models
from support.pipeline import check, compare_gradients, make_bundle

EXPERTS = ["experts.gate_up_proj", "experts.down_proj"]
CASES = {
    "experts and router": ("qwen3_moe", [*EXPERTS, "gate"]),
    "one parameter of two, and attention": ("qwen2_moe", ["experts.down_proj", "q_proj"]),
    "a router of another name": ("granitemoe", [*EXPERTS, "router"]),
    "experts with biases, as their transposes": ("gpt_oss", [*EXPERTS, "router"]),
    "a router that is a linear layer of a class of its own": ("phimoe", [*EXPERTS, "router"]),
    "a router whose bias chooses": ("glm4_moe", [EXPERTS[0], "gate.weight", "o_proj"]),
}


def make(name_or_family, folder, targets=None, **options):
    family, targets = CASES.get(name_or_family) or (name_or_family, targets)
    model = models.build(family, num_hidden_layers=2)
    lora = mebp.LoRA(rank=3, alpha=7, targets=targets)
    return model, make_bundle(model, folder, seq_len=40, batch=2, lora=lora, **options)


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory):
    return make("experts and router", tmp_path_factory.mktemp("experts"), generate_len=32)


@pytest.fixture(scope="module", params=["qwen3_moe", "gpt_oss"])
def family(request):
    """One of experts [experts, out, in], and one of [experts, in, out]."""
    return request.param


@pytest.fixture(scope="module")
def bundle(family, qwen3, tmp_path_factory):
    if family == "qwen3_moe":
        return qwen3[1]
    name = "experts with biases, as their transposes"
    return make(name, tmp_path_factory.mktemp("transposes"), generate_len=32)[1]


def gradients(model, bundle, **options):
    session = mebp.Session(bundle, **options)
    randomise_adapter(session)
    ids = models.token_ids(model, 2, 37).numpy()
    return compare_gradients(bundle, session, model, ids, ids)


@pytest.mark.parametrize("name", [name for name, (family, _) in CASES.items() if family in models.ALL_FAMILIES])
def test_gradients(tmp_path, show, name):
    model, bundle = make(name, tmp_path)
    result = gradients(model, bundle)
    show(f"{name}: {result}")
    check(result)
    check(gradients(model, bundle, reference_kernels=True))


@pytest.mark.parametrize("options", [{"chunk_size": 7}, {"weights": "f32"}], ids=str)
def test_gradients_of_other_plans(tmp_path, options):
    check(gradients(*make("experts and router", tmp_path, **options)))


def test_every_factor_is_called_as_peft_calls_it(qwen3):
    _, bundle = qwen3
    lora = inspect(bundle)["model"]["lora"]
    assert (lora["target_modules"], lora["target_parameters"]) == ([], ["gate.weight", *EXPERTS])
    shapes = {key.split("layers.0.mlp.")[1]: values.shape for key, values in mebp.Session(bundle).trainables().items()
              if ".layers.0." in key}  # fmt: skip
    assert shapes == {
        "gate.lora_A.weight": (3, 96),
        "gate.lora_B.weight": (6, 3),
        "experts.base_layer.lora_A.weight": (18, 96),
        "experts.base_layer.lora_B.weight": (112, 18),
        "experts.lora_A.weight": (18, 56),
        "experts.lora_B.weight": (96, 18),
    }


def test_peft_reads_the_adapter_and_writes_the_same_text(family, bundle, tmp_path):
    session = mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(tmp_path)
    base = models.build(family, num_hidden_layers=2)
    load_weights(base, session.base_weights())
    adapted = PeftModel.from_pretrained(base, tmp_path).eval()
    ids = models.token_ids(base, 1, 20)
    with torch.no_grad():
        expected = adapted(input_ids=ids).logits.numpy()
        text = adapted.generate(input_ids=ids, max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert relative_error(session.logits(ids.numpy()), expected) < 1e-5
    assert np.asarray(session.generate(ids.numpy(), 8)).reshape(-1)[-8:].tolist() == text[0, 20:].tolist()


def made_by_peft(bundle, folder, targets, family="qwen3_moe", **options):
    base = models.build(family, num_hidden_layers=2)
    load_weights(base, mebp.Session(bundle).base_weights())
    config = {"r": 3, "lora_alpha": 7, "target_modules": [], "target_parameters": targets, "task_type": "CAUSAL_LM"}
    adapted = get_peft_model(base, LoraConfig(**{**config, **options})).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.05 * torch.randn(parameter.shape, generator=generator))
    adapted.save_pretrained(folder)
    return adapted


def test_an_adapter_of_peft_computes_the_same(family, bundle, tmp_path):
    router = {"qwen3_moe": "gate.weight", "gpt_oss": "router.weight"}[family]
    adapted = made_by_peft(bundle, tmp_path, [*EXPERTS, router], family)
    session = mebp.Session(bundle)
    session.load_adapter(tmp_path)
    ids = models.token_ids(adapted, 1, 20)
    with torch.no_grad():
        expected = adapted(input_ids=ids).logits.numpy()
    assert relative_error(session.logits(ids.numpy()), expected) < 1e-5


def test_an_adapter_of_another_parameter_is_refused(tmp_path):
    # Whichever parameter it is, the keys are the same.
    model = models.build("qwen3_moe", num_hidden_layers=1, mlp_only_layers=[], moe_intermediate_size=48)
    lora = mebp.LoRA(rank=3, alpha=7, targets=["experts.down_proj"])
    bundle = make_bundle(model, tmp_path, seq_len=16, lora=lora)
    mebp.Session(bundle).save_adapter(tmp_path / "adapter")
    config = tmp_path / "adapter" / "adapter_config.json"
    named = json.loads(config.read_text())
    assert named["target_parameters"] == ["experts.down_proj"]
    config.write_text(json.dumps({**named, "target_parameters": ["experts.gate_up_proj"]}))
    with pytest.raises(mebp.Error, match="target_parameters has no 'model.layers.0.mlp.experts.down_proj', which this"):
        mebp.Session(bundle).load_adapter(tmp_path / "adapter")


def test_an_adapter_of_more_parameters_says_how_to_compile(qwen3, tmp_path):
    made_by_peft(qwen3[1], tmp_path / "adapter", [*EXPERTS, "gate.weight"], target_modules=["q_proj"])
    words = "compile its base model with --lora-targets experts.down_proj,experts.gate_up_proj,gate.weight,q_proj"
    with pytest.raises(mebp.Error, match=words):
        mebp.Session(qwen3[1]).load_adapter(tmp_path / "adapter")


@pytest.mark.parametrize("family", ["qwen3_moe", "phimoe"])
def test_all_linear_leaves_parameters_alone(tmp_path, family):
    _, bundle = make(family, tmp_path, "all-linear")
    keys = mebp.Session(bundle).trainables()
    assert keys and not any("experts" in key or ".gate." in key or ".router." in key for key in keys)


def with_one_expert(folder):
    """A model whose router sends every row to the first of six experts, and its bundle."""
    groups = {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 0}
    model = models.build("glm4_moe", num_hidden_layers=1, num_experts_per_tok=1, norm_topk_prob=False, **groups)
    model.model.layers[0].mlp.gate.e_score_correction_bias.copy_(torch.arange(6) == 0)
    return model, make_bundle(model, folder, seq_len=24, lora=mebp.LoRA(rank=3, alpha=7, targets=EXPERTS))


def learned(adapter):
    return adapter["base_model.model.model.layers.0.mlp.experts.lora_B.weight"].reshape(96, 3, 6)


def test_one_expert_may_have_every_row(tmp_path, capsys):
    model, bundle = with_one_expert(tmp_path)
    session = mebp.Session(bundle)
    randomise_adapter(session)
    ids = models.token_ids(model, 1, 21).numpy()
    check(compare_gradients(bundle, session, model, ids, ids))
    _, found = session.loss_and_gradients(ids, ids)
    assert learned(found)[:, :, 0].any() and not learned(found)[:, :, 1:].any()
    assert main(["verify", str(bundle)]) == 0
    words = "no token of this batch went to 5 of the 6 experts of model.layers.0.mlp.experts.gate_up_proj"
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(("family", "router"), [("qwen3_moe", "gate"), ("gpt_oss", "router")])
def test_merged_it_computes_the_same(tmp_path, family, router):
    model = models.build(family, num_hidden_layers=2)
    models.save(model, tmp_path / "source")
    lora = mebp.LoRA(rank=3, alpha=7, targets=[*EXPERTS, router])
    bundle = make_bundle(tmp_path / "source", tmp_path, seq_len=32, lora=lora)
    session = mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(tmp_path / "adapter")
    merged = mebp.merge(bundle, tmp_path / "adapter", tmp_path / "merged")
    assert {name.rpartition(".mlp.")[2] for name in merged.changes} == {f"{router}.weight", *EXPERTS}
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "merged").float().eval()
    ids = models.token_ids(model, 1, 20)
    with torch.no_grad():
        expected = base(input_ids=ids).logits.numpy()
    assert relative_error(session.logits(ids.numpy()), expected) < 1e-4


def test_experts_without_a_token_learn_nothing(tmp_path):
    _, bundle = with_one_expert(tmp_path)
    ids = np.arange(20)[None]
    session = mebp.Session(bundle, lr=1e-2)
    for _ in range(2):
        session.step(ids, ids)
    session.save_adapter(tmp_path / "adapter")
    adapter = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert learned(adapter)[:, :, 0].any() and not learned(adapter)[:, :, 1:].any()
    assert unreached(adapter, inspect(bundle)) == (
        "5 of the 6 experts of model.layers.0.mlp.experts.gate_up_proj, and to some of 1 other parameter"
    )
