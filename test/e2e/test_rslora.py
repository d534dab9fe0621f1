# SPDX-License-Identifier: Apache-2.0
"""--rslora: adapters that are scaled by alpha / sqrt(rank), as with PEFT's use_rslora, and where they go from there."""

import copy
import json
import math

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

import mebp
from mebp.cli import main
from mebp.inspect import describe_trained, inspect
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from mebp.verification.reference import KeepFloat64, load_weights
from support import models
from support.commands import bundle_of, refusal_in_process
from support.pipeline import make_bundle
from support.textmodel import make_tokenizer

RANK, ALPHA = 5, 3
EXPERTS = ["experts.gate_up_proj", "experts.down_proj"]
TOLERANCE = 2e-5
FAMILIES = {"llama": "all-linear", "gpt2": "all-linear", "qwen3_moe": ["q_proj", *EXPERTS]}


def lora(targets="all-linear") -> mebp.LoRA:
    return mebp.LoRA(rank=RANK, alpha=ALPHA, targets=targets, rslora=True)


@pytest.fixture(scope="module", params=FAMILIES)
def made(request, tmp_path_factory):
    """A model, its bundle, a session with a random adapter, and the folder where that was saved."""
    folder, family = tmp_path_factory.mktemp(request.param), request.param
    model = models.build(family, num_hidden_layers=2)
    bundle = make_bundle(model, folder, seq_len=32, precision="f32", lora=lora(FAMILIES[family]))
    session = mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(folder / "adapter")
    return model, bundle, session, folder / "adapter"


def in_float64(model, session, adapter) -> PeftModel:
    base = copy.deepcopy(model)
    load_weights(base, session.base_weights())
    if base._can_set_experts_implementation():
        base.set_experts_implementation("eager")  # others multiply in types of their own
    peft = PeftModel.from_pretrained(base, adapter, is_trainable=True).eval()
    for parameter in peft.parameters():  # not the rotary frequencies, which are float32 in every model
        parameter.data = parameter.data.double()
    return peft


def test_peft_has_the_same_logits_and_gradients(made):
    model, _, session, adapter = made
    settings = json.loads((adapter / "adapter_config.json").read_text())
    assert (settings["use_rslora"], settings["lora_alpha"], settings["r"]) == (True, ALPHA, RANK)
    peft = in_float64(model, session, adapter)
    ids = models.token_ids(model, 1, 27)
    with KeepFloat64():
        found = peft(input_ids=ids, use_cache=False).logits
        torch.nn.functional.cross_entropy(found[0, :-1], ids[0, 1:]).backward()
    assert relative_error(session.logits(ids.numpy()), found.detach().numpy()) < TOLERANCE
    _, gradients = session.loss_and_gradients(ids.numpy(), ids.numpy())
    expected = {name.replace(".default.", "."): each.grad.numpy() for name, each in peft.named_parameters()
                if "lora_" in name}  # fmt: skip
    assert gradients.keys() == expected.keys()
    for key, values in gradients.items():
        assert relative_error(values, expected[key].reshape(values.shape)) < TOLERANCE, key


def test_it_comes_back_bitwise_and_one_of_peft_s_own_does(made, tmp_path):
    model, bundle, session, adapter = made
    again = mebp.Session(bundle)
    again.load_adapter(adapter)
    assert all(np.array_equal(values, again.trainables()[key]) for key, values in session.trainables().items())

    peft = in_float64(model, session, adapter).float()
    peft.save_pretrained(tmp_path, save_embedding_layers=False)
    assert json.loads((tmp_path / "adapter_config.json").read_text())["use_rslora"] is True
    third = mebp.Session(bundle)
    third.load_adapter(tmp_path)
    assert all(np.array_equal(values, third.trainables()[key]) for key, values in session.trainables().items())


def test_merged_it_computes_the_same(made, tmp_path):
    model, bundle, session, adapter = made
    mebp.merge(bundle, adapter, tmp_path / "merged")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged").float().eval()
    ids = models.token_ids(model, 1, 27)
    with torch.no_grad():
        assert relative_error(session.logits(ids.numpy()), merged(input_ids=ids).logits.numpy()) < TOLERANCE


def test_onto_published_weights_it_has_the_same_scale(tmp_path):
    model = models.build("llama", num_hidden_layers=1)
    models.save(model, tmp_path / "source")
    bundle = make_bundle(tmp_path / "source", tmp_path, seq_len=32, weights="int4", lora=lora())
    session = mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(tmp_path / "adapter")
    mebp.merge(bundle, tmp_path / "adapter", tmp_path / "merged", onto="published")
    published = AutoModelForCausalLM.from_pretrained(tmp_path / "source")
    expected = PeftModel.from_pretrained(published, tmp_path / "adapter").merge_and_unload().state_dict()
    found = load_file(tmp_path / "merged/model.safetensors")
    assert found and all(relative_error(values, expected[name].numpy()) < 1e-6 for name, values in found.items())


def test_verify_and_inspect_know_it(made, capsys):
    _, bundle, _, adapter = made
    assert mebp.verify(bundle, adapter=adapter).agrees
    description = inspect(bundle)
    assert f"rank {RANK}, alpha {ALPHA} over the root of the rank, on " in describe_trained(description)
    assert description["manifest"]["options"]["lora"]["rslora"] is True
    assert description["manifest"]["options"]["lora"]["alpha"] == ALPHA
    # Which a reader who knows nothing of it divides by the rank.
    assert description["model"]["lora"]["alpha"] / RANK == pytest.approx(ALPHA / math.sqrt(RANK), rel=1e-6)


def test_other_tools_get_the_number_that_it_multiplies_by(tmp_path):
    model = models.build("llama", num_hidden_layers=1)
    models.save(model, tmp_path / "source")
    bundle = make_bundle(tmp_path / "source", tmp_path, seq_len=16, lora=lora("q_proj"))
    session = mebp.Session(bundle)
    randomise_adapter(session)
    session.save_adapter(tmp_path / "adapter")
    mebp.convert_adapter(tmp_path / "adapter", tmp_path / "mlx", "mlx")
    scale = json.loads((tmp_path / "mlx/adapter_config.json").read_text())["lora_parameters"]["scale"]
    assert scale == pytest.approx(ALPHA / math.sqrt(RANK), rel=1e-12)
    mebp.convert_adapter(tmp_path / "adapter", tmp_path / "a.gguf", "gguf", base=tmp_path / "source")
    mebp.convert_adapter(tmp_path / "a.gguf", tmp_path / "again", "peft", base=tmp_path / "source")
    again = json.loads((tmp_path / "again/adapter_config.json").read_text())
    assert again["lora_alpha"] / again["r"] == pytest.approx(ALPHA / math.sqrt(RANK), rel=1e-6)
    assert not again.get("use_rslora")


class TestFromTheCommandLine:
    @pytest.fixture(autouse=True)
    def _given(self, tmp_path, monkeypatch, capsys):
        self.folder, self.capsys = tmp_path, capsys
        models.save(models.build("llama", num_hidden_layers=1), tmp_path / "tiny")
        make_tokenizer(tmp_path / "tiny")
        capsys.readouterr()
        (tmp_path / "data.txt").write_text("The lamp is lit.\n" * 8)
        monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))

    def mebp(self, *arguments: object) -> str:
        assert main([*map(str, arguments)]) == 0
        return self.capsys.readouterr().out

    def test_a_run_of_a_model_and_of_the_adapter_that_it_leaves(self):
        out, data = self.folder / "adapter", self.folder / "data.txt"
        given = ["train", self.folder / "tiny", "--data", data, "--adapter-out", out, "--rslora", "--lora-rank", RANK]
        bundle = bundle_of(self.mebp(*given, "--steps", 1))
        assert inspect(bundle)["model"]["lora"]["rslora_alpha"] == 16
        assert json.loads((out / "adapter_config.json").read_text())["use_rslora"] is True
        assert "--rslora" in (out / "README.md").read_text()
        # A stranger's folder says so in its settings alone.
        (out / "mebp.json").unlink()
        own = self.mebp("eval", bundle, "--data", data, "--adapter", out, "--json")
        other = self.mebp("eval", out, "--base", self.folder / "tiny", "--data", data, "--json")
        assert json.loads(own)["loss"] == pytest.approx(json.loads(other)["loss"], rel=1e-6)

    def test_from_python_and_from_a_file(self):
        run = mebp.train(self.folder / "tiny", self.folder / "data.txt", steps=1, rslora=True, progress=False)
        assert inspect(run.session.path)["model"]["lora"]["rslora_alpha"] == 16
        (self.folder / "run.yaml").write_text("rslora: true\nlora-alpha: 4\nsteps: 1\n")
        data = ["--data", self.folder / "data.txt"]
        bundle = bundle_of(self.mebp("train", self.folder / "tiny", *data, "--config", self.folder / "run.yaml"))
        assert inspect(bundle)["model"]["lora"]["rslora_alpha"] == 4

    @pytest.mark.parametrize(
        ("more", "why"),
        [
            (["--train", "full"], "--rslora: is not for --train full; leave it out, or give --train lora"),
            (
                ["--adapter-kind", "private-lora"],
                "--rslora: is not for --adapter-kind private-lora; give --rank-down and --rank-up",
            ),
        ],
    )
    def test_what_it_is_not_for(self, more, why):
        given = ["train", self.folder / "tiny", "--data", self.folder / "data.txt", "--rslora", *more]
        assert refusal_in_process(self.capsys, *given) == f"mebp: {why}\n"


def test_an_adapter_of_peft_that_has_it_trains_on(tmp_path):
    """Where PEFT has drawn A and B, a step of both from there changes them alike."""
    model = models.build("llama", num_hidden_layers=1)
    bundle = make_bundle(model, tmp_path, seq_len=16, precision="f32", lora=lora())
    base = copy.deepcopy(model)
    load_weights(base, mebp.Session(bundle).base_weights())
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", use_rslora=True, task_type="CAUSAL_LM",
                        init_lora_weights=False)  # fmt: skip
    peft = get_peft_model(base, config)
    peft.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
    session = mebp.Session(bundle, optimizer="sgd", lr=0.1)
    session.load_adapter(tmp_path / "adapter")
    ids = models.token_ids(model, 1, 16)
    session.step(ids.numpy(), ids.numpy())
    torch.nn.functional.cross_entropy(peft(input_ids=ids).logits[0, :-1], ids[0, 1:]).backward()
    for name, parameter in peft.named_parameters():
        if "lora_" in name:
            expected = (parameter - 0.1 * parameter.grad).detach().numpy()
            assert relative_error(session.trainables()[name.replace(".default.", ".")], expected) < TOLERANCE, name
