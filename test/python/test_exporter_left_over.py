# SPDX-License-Identifier: Apache-2.0
"""Tensors of a checkpoint that the model has no place for: named, and refused inside what is used."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining, LlamaConfig, LlamaForCausalLM

import mebp
from mebp.errors import Error
from mebp.exporter.checkpoint import StoredTensor, read_checkpoint
from mebp.exporter.left_over import check_left_over
from mebp.exporter.quiet import quiet
from mebp.exporter.renaming import find_pieces, rename
from mebp.exporter.skeleton import build_skeleton
from mebp.exporter.source import resolve
from support import models

Q = "model.layers.0.self_attn.q_proj"
WEIGHTS = "model.safetensors"
IGNORED = "which the model in its config.json would ignore; use the config.json that belongs to the weights"
LEFT_OUT = "tensors of the checkpoint that the model has no place for"


@pytest.fixture(scope="module")
def llama() -> torch.nn.Module:
    return models.build("llama", num_hidden_layers=1)


@pytest.fixture(scope="module")
def saved(llama: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.save(llama, tmp_path_factory.mktemp("llama"))


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def refusal(folder: Path) -> str:
    """The line of an export's refusal; checks that nothing was written."""
    out = folder.parent / "refused"
    with pytest.raises(Error) as caught:
        mebp.export(folder, out / "model.onnx", seq_len=8)
    assert not out.exists()
    return str(caught.value)


def stored(model: torch.nn.Module, *more: str, shape: tuple[int, ...] = (2,)) -> dict[str, StoredTensor]:
    """The model's own tensors, and others of these names."""
    file = Path("model.safetensors")
    own = {name: StoredTensor(file, 0, 4 * t.numel(), "F32", tuple(t.shape)) for name, t in model.state_dict().items()}
    return own | {name: StoredTensor(file, 0, 8, "F32", shape) for name in more}


def test_one_warning_names_what_is_left_out(llama, capsys) -> None:
    vision = [f"vision_tower.blocks.{i}.weight" for i in range(436)]
    layers = [f"model.layers.{i}.mlp.{name}.weight" for i in range(1, 4) for name in ("up_proj", "down_proj")]
    check_left_over(llama, stored(llama, *vision, *layers, "v_head.weight", "model.\nextra.weight"), {}, "m")
    assert capsys.readouterr().err == (
        f"warning: m: export leaves out 444 {LEFT_OUT}: vision_tower.*: 436, "
        "model.layers.1-3.*: 6, v_head.weight, model.\\nextra.weight\n"
    )


def test_many_groups_stay_one_line(llama, capsys) -> None:
    check_left_over(llama, stored(llama, *(f"part{i}.{j}" for i in range(900) for j in "ab")), {}, "m")
    assert capsys.readouterr().err.endswith("part6.*: 2, part7.*: 2, 892 more groups\n")


@pytest.mark.parametrize("name", [f"{Q}.bias", "model.norm.bias", "lm_head.bias", "model.embed_tokens.scale",
                                  "model.layers.0.self_attn.q_norm.weight", "layers.0.self_attn.sinks"])  # fmt: skip
def test_what_would_change_a_module_that_is_used_is_refused(name: str, llama) -> None:
    with pytest.raises(Error) as caught:
        check_left_over(llama, stored(llama, name), {}, "m")
    assert str(caught.value) == f"m: the checkpoint has '{name}', {IGNORED}"


@pytest.mark.parametrize("prefix", ["", "base_model.model."])
def test_a_lora_that_was_left_in(prefix: str, llama) -> None:
    names = [f"{prefix}{Q}.lora_{each}.weight" for each in "AB"]
    with pytest.raises(Error) as caught:
        check_left_over(llama, stored(llama, *names), {}, "m")
    assert str(caught.value) == (
        f"m: the checkpoint has '{names[0]}', part of an adapter; merge it (PEFT's merge_and_unload), save, and export "
        "again"
    )


def test_what_is_left_out_is_said_once_and_after_refusals(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors |= {f"v_head.{name}": torch.ones(2) for name in ("weight", "bias")}
    save_file(tensors, folder / WEIGHTS, {"format": "mlx"})  # whose other tensors are as transformers has them
    mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=8)
    line = f"warning: model: export leaves out 2 {LEFT_OUT}: v_head.*: 2\n"
    assert capsys.readouterr().err.count(line) == 1
    tensors["lm_head.kernel"] = tensors.pop("lm_head.weight")
    save_file(tensors, folder / WEIGHTS)
    assert refusal(folder).startswith(f"{folder}: no tensor 'lm_head.weight'")
    assert capsys.readouterr().err == ""


def test_biases_that_config_json_does_not_name(tmp_path: Path) -> None:
    """They are refused; with them, the loss is that of the model that was saved (transformers': 5.948990)."""
    source = tmp_path / "source"
    model = models.save(with_biases(), source)
    fields = json.loads((source / "config.json").read_text())
    without = {name: value for name, value in fields.items() if name not in ("attention_bias", "mlp_bias")}
    (source / "config.json").write_text(json.dumps(without))
    assert refusal(model) == f"source: the checkpoint has 'model.layers.0.mlp.down_proj.bias', {IGNORED}"
    (source / "config.json").write_text(json.dumps(fields))
    mebp.export(source, tmp_path / "model.onnx", seq_len=64)
    mebp.compile(tmp_path / "model.onnx", tmp_path / "a.mebp", seq_len=64, weights="f32", precision="f32", rates="none")
    ids = np.random.default_rng(1).integers(0, 300, (1, 64)).astype(np.int32)
    assert mebp.Session(tmp_path / "a.mebp").loss(ids, ids) == pytest.approx(5.948990, rel=1e-6)


def with_biases() -> torch.nn.Module:
    """The model whose loss was computed apart from these tests."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "intermediate_size": 128, "vocab_size": 320, "max_position_embeddings": 512}  # fmt: skip
    config = LlamaConfig(**sizes, tie_word_embeddings=False, attention_bias=True, mlp_bias=True)
    model = LlamaForCausalLM(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_scale = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(1 + 0.2 * noise if is_scale else noise * (0.2 if parameter.dim() == 1 else 0.08))
    return model


@pytest.mark.parametrize(("family", "name", "shape"), [
    ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq", (12,)),
    ("gpt2", "transformer.h.0.attn.bias", (1, 1, 8, 8)),
    ("gpt2", "h.0.attn.masked_bias", ()),
    ("gptj", "transformer.h.0.attn.bias", (1, 1, 8, 8)),
    ("gptj", "transformer.h.0.attn.causal_mask", (1, 1, 8, 8)),
    ("gpt_neo", "transformer.h.0.attn.attention.masked_bias", ()),
    ("gpt_neox", "gpt_neox.layers.0.attention.bias", (1, 1, 8, 8)),
    ("falcon", "transformer.h.0.self_attention.maybe_rotary.inv_freq", (12,)),
])  # fmt: skip
def test_what_models_compute_themselves_is_not_named(family: str, name: str, shape: tuple[int, ...], capsys) -> None:
    model = models.build(family)
    check_left_over(model, stored(model, name, shape=shape), {}, "m")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("family", models.ALL_FAMILIES)
def test_a_whole_checkpoint_leaves_nothing(family: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """As transformers writes it, which has other names for some, and experts one by one."""
    with quiet():
        model = models.build(family)
        model.save_pretrained(tmp_path)
        skeleton = build_skeleton(resolve(tmp_path, tmp_path, shape_only=True).config)
        checkpoint = rename(read_checkpoint(tmp_path), skeleton)
        capsys.readouterr()
        check_left_over(skeleton, checkpoint, find_pieces(checkpoint, skeleton), family)
    assert capsys.readouterr().err == ""


def test_an_encoder_leaves_what_its_task_has_no_place_for(capsys: pytest.CaptureFixture) -> None:
    """BERT was published with the heads of both its tasks."""
    config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    published = stored(BertForPreTraining(config), "bert.embeddings.position_ids")
    check_left_over(BertForMaskedLM(config), published, {}, "m")
    assert capsys.readouterr().err == (
        f"warning: m: export leaves out 4 {LEFT_OUT}: bert.pooler.*: 2, cls.seq_relationship.*: 2\n"
    )
