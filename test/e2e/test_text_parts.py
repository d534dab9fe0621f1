# SPDX-License-Identifier: Apache-2.0
"""Models that take more than text: their text is trained, and what comes out is the whole model's."""

import json
import shutil
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedModel

import mebp
from mebp.adapters.conversion import convert_adapter
from mebp.cli import main
from mebp.exporter.text_parts import TEXT_PARTS
from mebp.verification.comparison import relative_error
from support import whole_models
from support.commands import refusal_in_process
from support.llama_cpp import llama_cpp  # noqa: F401
from support.pipeline import make_bundle

INSIDE = "base_model.model.model.language_model."
TOLERANCE = 1e-5


class Trained(NamedTuple):
    family: str
    model: PreTrainedModel
    source: Path
    bundle: Path
    session: mebp.Session
    adapter: Path

    @property
    def ids(self) -> np.ndarray:
        return np.random.default_rng(1).integers(3, 330, (2, 23)).astype(np.int32)


def train(family: str, folder: Path, **changes: object) -> Trained:
    """With an adapter of random numbers, as training would leave one."""
    model = whole_models.build(family, **changes)
    model.save_pretrained(folder / "source")
    lora = mebp.LoRA(rank=3, alpha=7, targets=["all-linear"])
    bundle = make_bundle(folder / "source", folder, seq_len=23, batch=2, weights="f32", lora=lora)
    session = mebp.Session(bundle)
    generator = np.random.default_rng(0)
    session.set_trainables(
        {
            name: 0.05 * generator.standard_normal(values.shape).astype(np.float32)
            for name, values in session.trainables().items()
        }
    )
    session.save_adapter(folder / "adapter")
    return Trained(family, model, folder / "source", bundle, session, folder / "adapter")


@pytest.fixture(scope="module", params=[*whole_models.FIELDS, "untied"])
def trained(request, tmp_path_factory) -> Trained:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "untied":
        return train("gemma3", folder, tie_word_embeddings=False)
    return train(request.param, folder)


def test_gradients_are_those_of_float64(trained):
    assert mebp.verify(trained.bundle, adapter=trained.adapter).agrees


def test_peft_loads_the_adapter_on_the_whole_class(trained):
    """All its tensors are set, nothing beside the text is adapted, and the logits are the session's."""
    model = AutoModelForImageTextToText.from_pretrained(trained.source, attn_implementation="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adapted = PeftModel.from_pretrained(model, trained.adapter)
    ours = load_file(trained.adapter / "adapter_model.safetensors")
    theirs = {name.replace(".default.", "."): each for name, each in adapted.state_dict().items() if "lora_" in name}
    assert theirs.keys() == ours.keys() and all(name.startswith(INSIDE) for name in ours)
    assert all(torch.equal(theirs[name], each) for name, each in ours.items())
    whole = whole_models.logits(adapted.base_model.model, torch.from_numpy(trained.ids).long())
    assert relative_error(trained.session.logits(trained.ids), whole.numpy()) < TOLERANCE


@pytest.mark.parametrize("onto", ["stored", "published"])
def test_the_merged_folder_is_the_whole_models(trained, tmp_path, onto):
    """With the file's own names, and each tensor that is not adapted byte for byte."""
    merged = tmp_path / "merged"
    result = mebp.merge(trained.bundle, trained.adapter, merged, base=trained.source, onto=onto)
    before, after = load_file(trained.source / "model.safetensors"), {}
    for file in merged.glob("*.safetensors"):
        after |= load_file(file)
    assert after.keys() == before.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert len(changed) == len(result.changes) and all("language_model." in name for name in changed)
    assert all("vision" not in name and "visual" not in name for name in changed)
    model = AutoModelForImageTextToText.from_pretrained(merged, attn_implementation="eager")
    whole = whole_models.logits(model, torch.from_numpy(trained.ids).long())
    assert relative_error(trained.session.logits(trained.ids), whole.numpy()) < TOLERANCE


def test_an_adapter_is_written_for_either_class_and_for_mlx(trained, tmp_path):
    """And back; the base is named, for what this machine has trained it on is a bundle."""
    ours = load_file(trained.adapter / "adapter_model.safetensors")
    convert_adapter(trained.adapter, tmp_path / "text", "peft", trained.source, "text")
    text = load_file(tmp_path / "text" / "adapter_model.safetensors")
    assert {name.replace(".model.model.", ".model.model.language_model.") for name in text} == ours.keys()
    assert isinstance(json.loads((tmp_path / "text" / "adapter_config.json").read_text())["target_modules"], list)
    convert_adapter(tmp_path / "text", tmp_path / "whole", "peft", trained.source, "multimodal")
    written = ["whole"]
    if trained.family == "gemma4":  # which adapts a layer that lies outside of the others
        with pytest.raises(mebp.Error, match="per_layer_model_projection', which MLX-LM's form has no name for"):
            convert_adapter(trained.adapter, tmp_path / "mlx", "mlx", trained.source)
    else:
        convert_adapter(trained.adapter, tmp_path / "mlx", "mlx", trained.source)
        mlx = load_file(tmp_path / "mlx" / "adapters.safetensors")
        assert all(name.startswith("language_model.model.layers.") for name in mlx)
        convert_adapter(tmp_path / "mlx", tmp_path / "back", "peft", trained.source)
        written.append("back")
    for folder in written:
        found = load_file(tmp_path / folder / "adapter_model.safetensors")
        assert found.keys() == ours.keys() and all(torch.equal(found[name], each) for name, each in ours.items())
        trained.session.load_adapter(tmp_path / folder)
    with pytest.raises(mebp.Error, match="mebp adapter convert .*text --to peft --class multimodal -o DIR"):
        trained.session.load_adapter(tmp_path / "text")
    trained.session.load_adapter(trained.adapter)


def test_names_of_older_files_are_read_and_written_back(tmp_path):
    model = whole_models.build("gemma3")
    model.save_pretrained(tmp_path / "source")
    file = tmp_path / "source" / "model.safetensors"
    older = {
        name.replace("model.language_model.", "language_model.model.").replace("model.vision", "vision"): each
        for name, each in load_file(file).items()
    }
    save_file(older, file, {"format": "pt"})
    bundle = make_bundle(tmp_path / "source", tmp_path, seq_len=23, weights="f32")
    session = mebp.Session(bundle)
    session.save_adapter(tmp_path / "adapter")
    assert all(name.startswith(INSIDE) for name in load_file(tmp_path / "adapter" / "adapter_model.safetensors"))
    mebp.merge(bundle, tmp_path / "adapter", tmp_path / "merged", base=tmp_path / "source")
    names = json.loads((tmp_path / "merged" / "model.safetensors.index.json").read_text())["weight_map"]
    assert names.keys() == older.keys()


def test_what_lies_beside_the_text_is_no_warning(tmp_path, capsys):
    """Towers, what joins them to the text, and layers that predict tokens further ahead; anything else is one."""
    whole_models.build("qwen3_vl").save_pretrained(tmp_path / "source")
    file = tmp_path / "source" / "model.safetensors"
    rest = {"mtp.layers.0.mlp.up_proj.weight": torch.zeros(4, 4)}
    save_file({**load_file(file), **rest}, file, {"format": "pt"})
    assert main(["export", str(tmp_path / "source"), "-o", str(tmp_path / "m.onnx"), "--seq-len", "8"]) == 0
    assert "leaves out" not in capsys.readouterr().err
    save_file({**load_file(file), "extra.weight": torch.zeros(4)}, file, {"format": "pt"})
    assert main(["export", str(tmp_path / "source"), "-o", str(tmp_path / "m.onnx"), "--seq-len", "8"]) == 0
    assert (
        "leaves out 1 tensor of the checkpoint that the model has no place for: extra.weight" in capsys.readouterr().err
    )


def test_a_folder_that_names_the_texts_class_has_the_texts_names(tmp_path):
    """As AutoModelForCausalLM saves a model whose text has a class of its own."""
    model = whole_models.build("gemma3")
    model.save_pretrained(tmp_path / "source")
    config = json.loads((tmp_path / "source" / "config.json").read_text())
    config["architectures"] = ["Gemma3ForCausalLM"]
    (tmp_path / "source" / "config.json").write_text(json.dumps(config))
    session = mebp.Session(make_bundle(tmp_path / "source", tmp_path, seq_len=23, weights="f32"))
    assert next(iter(session.trainables())).startswith("base_model.model.model.layers.0.")


def test_all_weights_of_a_text_make_a_model_of_their_own(tmp_path):
    whole_models.build("qwen3_vl").save_pretrained(tmp_path / "source")
    bundle = make_bundle(tmp_path / "source", tmp_path, seq_len=23, weights="f32", train="full", optimizer="sgd")
    session = mebp.Session(bundle)
    session.save_model(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model").eval()
    ids = np.arange(3, 26, dtype=np.int32)[None]
    with torch.no_grad():
        theirs = model(input_ids=torch.from_numpy(ids).long()).logits.numpy()
    assert relative_error(session.logits(ids), theirs) < TOLERANCE


@pytest.mark.parametrize("family", ["gemma3", "qwen3_5"])
def test_llama_cpp_has_the_text_alone(tmp_path, family, llama_cpp, capsys):  # noqa: F811
    """The merged file, read again, and the adapter's."""
    changes = {}
    if family == "qwen3_5":  # llama.cpp has heads of one width, and layers that attend by their distance
        text = whole_models.FIELDS[family]["text_config"]
        changes = {"text_config": {**text, "linear_value_head_dim": 12, "mtp_num_hidden_layers": 1}}
    made = train(family, tmp_path, **changes)
    capsys.readouterr()
    merged = tmp_path / "merged.gguf"
    assert main([*map(str, ["merge", made.bundle, "--adapter", made.adapter, "-o", merged])]) == 0
    said = capsys.readouterr()
    assert f"{merged}: has the text part alone; what the model takes besides, such as images, is not in it" in said.out
    assert ("(nextn, 1 layer) is left out" in said.err) == (family == "qwen3_5")
    again = mebp.Session(make_bundle(tmp_path / "merged.gguf", tmp_path / "again", seq_len=23, batch=2, weights="f32"))
    assert relative_error(made.session.logits(made.ids), again.logits(made.ids)) < TOLERANCE
    of_llama_cpp = llama_cpp.logits(tmp_path / "merged.gguf", made.ids[0])
    assert relative_error(made.session.logits(made.ids[:1])[0], of_llama_cpp) < 1e-3  # its GELU is a table of halves
    convert_adapter(made.adapter, tmp_path / "adapter.gguf", "gguf", made.source)
    convert_adapter(tmp_path / "adapter.gguf", tmp_path / "back", "peft", made.source, "multimodal")
    ours, back = (load_file(folder / "adapter_model.safetensors") for folder in (made.adapter, tmp_path / "back"))
    assert all(torch.equal(back[name], each) for name, each in ours.items())


def test_refusals(tmp_path, capsys):
    made = train("gemma3", tmp_path)
    shutil.rmtree(made.source)
    capsys.readouterr()
    out = tmp_path / "out"
    arguments = [made.bundle, "--adapter", made.adapter, "-o", out, "--no-measure"]
    line = refusal_in_process(capsys, "merge", *arguments)
    assert "takes more than text and is not here as it was; give --base MODEL" in line and not out.exists()
    line = refusal_in_process(capsys, "merge", *arguments[:-2], out.with_suffix(".gguf"), "--no-measure", "--base", "x")
    assert "nothing is lacking; leave it out" in line
    convert = ["adapter", "convert", made.adapter, "-o", out, "--to"]
    assert "no such class of a model" in refusal_in_process(capsys, *convert, "peft", "--class", "images")
    assert "leave it out" in refusal_in_process(capsys, *convert, "gguf", "--class", "text")


def test_the_table_is_of_types_that_transformers_has():
    from transformers import CONFIG_MAPPING

    assert all(kind in CONFIG_MAPPING for kind in TEXT_PARTS)
