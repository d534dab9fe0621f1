# SPDX-License-Identifier: Apache-2.0
"""The exporter: logits as torch has them, weights in place, and nothing left behind after a refusal."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import mebp
from mebp.exporter.checkpoint import read_checkpoint
from support import models


def metadata(path: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}


def weights(path: Path) -> dict[str, onnx.TensorProto]:
    return {t.name: t for t in onnx.load(path, load_external_data=False).graph.initializer if t.external_data}


def place(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def check(path: Path) -> None:
    """onnx's own tools refuse hard-linked data, so they check a copy."""
    copy = shutil.copytree(path.parent, path.parent.with_name(f"{path.parent.name}-copy"), dirs_exist_ok=True)
    onnx.checker.check_model(copy / path.name, full_check=True)


def assert_same_logits(model: torch.nn.Module, path: Path, batch: int, sequence: int) -> None:
    ids = models.token_ids(model, batch, sequence)
    with torch.no_grad():
        expected = model(ids, use_cache=False).logits.numpy()
    check(path)
    actual = onnxruntime.InferenceSession(path).run(["logits"], {"input_ids": ids.numpy()})[0]
    assert actual.shape == expected.shape
    assert np.linalg.norm(actual - expected) <= 1e-5 * np.linalg.norm(expected)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[torch.nn.Module, Path]:
    model = models.build("llama", num_hidden_layers=1)
    return model, models.save(model, tmp_path_factory.mktemp("llama"))


@pytest.mark.parametrize("family", models.FAMILIES)
def test_logits_equal_torch(family: str, tmp_path: Path) -> None:
    model = models.build(family)
    folder = models.save(model, tmp_path / "model")
    path = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=19, batch=2)
    assert_same_logits(model, path, 2, 19)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    assert set(weights(path)) <= set(parameters)
    assert {id(parameters[name]) for name in weights(path)} == {id(p) for p in parameters.values()}


def test_graph_is_what_the_compiler_expects(llama: tuple, tmp_path: Path) -> None:
    path = mebp.export(llama[1], tmp_path / "model.onnx", seq_len=300, batch=3)
    graph = onnx.load(path, load_external_data=False).graph
    assert [i.name for i in graph.input] == ["input_ids"] and [o.name for o in graph.output] == ["logits"]
    assert [d.dim_value for d in graph.output[0].type.tensor_type.shape.dim] == [3, 300, 333]
    attention = [node for node in graph.node if node.op_type == "Attention"]
    assert [{a.name: a.i for a in node.attribute}["is_causal"] for node in attention] == [1]
    assert len(attention[0].input) == 3
    scoped = [node for node in graph.node if any(p.key == "pkg.torch.onnx.name_scopes" for p in node.metadata_props)]
    assert len(scoped) > 0.9 * len(graph.node)
    assert all(len(node.metadata_props) <= 1 and not node.doc_string for node in graph.node)
    # No table of length 300, let alone 300 x 300: what depends on positions is computed by nodes.
    inline = [t for t in graph.initializer if not t.external_data]
    assert all(np.prod(t.dims, dtype=int) <= 16 for t in inline)
    notes = metadata(path)
    places = json.loads(notes.pop("mebp.gguf"))
    assert places["architecture"] == "llama" and len(places["layers"]) == 8  # one for all layers, and the head
    assert notes == {
        "mebp.model": str(llama[1].resolve()),
        "mebp.model_type": "llama",
        "mebp.batch": "3",
        "mebp.sequence": "300",
        "mebp.sequence_limit": "512",
        "mebp.vocabulary": "333",
    }


def test_weights_are_linked_not_copied(llama: tuple, tmp_path: Path) -> None:
    model, folder = llama
    path = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=8)
    linked = tmp_path / "out" / "model.safetensors"
    assert os.path.samefile(linked, folder / "model.safetensors") and not linked.is_symlink()
    assert path.stat().st_size < 100_000
    assert sorted(p.name for p in path.parent.iterdir()) == ["model.onnx", "model.safetensors", "tokenizer"]
    tensor = weights(path)["model.layers.0.mlp.up_proj.weight"]
    at = place(tensor)
    data = (path.parent / at["location"]).read_bytes()[int(at["offset"]) : int(at["offset"]) + int(at["length"])]
    expected = model.get_parameter(tensor.name).detach().numpy()
    np.testing.assert_array_equal(np.frombuffer(data, np.float32).reshape(expected.shape), expected)
    # Exporting again, also under another name, changes nothing about the weights.
    mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=9)
    mebp.export(folder, tmp_path / "out" / "short.onnx", seq_len=3)
    assert os.path.samefile(linked, folder / "model.safetensors")


def test_a_snapshot_of_a_hub_cache(llama: tuple, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Its files are links, which are resolved."""
    repository = tmp_path / "models--somebody--llama"
    snapshot = repository / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    shutil.copytree(llama[1], repository / "blobs")
    for file in llama[1].iterdir():
        (snapshot / file.name).symlink_to(f"../../blobs/{file.name}")
    path = mebp.export(snapshot, tmp_path / "out" / "model.onnx", seq_len=8)
    linked = path.with_name("model.safetensors")
    assert not linked.is_symlink() and os.path.samefile(linked, repository / "blobs" / "model.safetensors")
    config = path.parent / "tokenizer" / "config.json"
    assert config.read_bytes() == (llama[1] / "config.json").read_bytes() and not config.is_symlink()
    assert "link" not in capsys.readouterr().err


def test_weights_are_copied_where_linking_is_impossible(
    llama: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    path = mebp.export(llama[1], tmp_path / "model.onnx", seq_len=8)
    assert "note: model.safetensors is copied, " in capsys.readouterr().err
    assert path.with_name("model.safetensors").read_bytes() == (llama[1] / "model.safetensors").read_bytes()
    mebp.export(llama[1], tmp_path / "other.onnx", seq_len=8)


def test_shards(tmp_path: Path) -> None:
    model = models.build("llama", num_hidden_layers=2)
    folder = models.save(model, tmp_path / "model", max_shard_size="200KB")
    shards = sorted(p.name for p in folder.glob("*.safetensors"))
    assert len(shards) > 2
    path = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=11)
    assert sorted(p.name for p in path.parent.glob("*.safetensors")) == shards
    assert all(os.path.samefile(path.parent / s, folder / s) for s in shards)
    assert_same_logits(model, path, 1, 11)


def test_tied_embedding_is_one_initializer(tmp_path: Path) -> None:
    model = models.build("qwen2", num_hidden_layers=1)
    path = mebp.export(models.save(model, tmp_path / "model"), tmp_path / "model.onnx", seq_len=5)
    (name, alias) = next(iter(json.loads(metadata(path)["mebp.tied"]).items()))
    assert {name, alias} == {"lm_head.weight", "model.embed_tokens.weight"}
    assert name in weights(path) and alias not in weights(path)


def test_base_model_checkpoint_names(tmp_path: Path) -> None:
    """GPT-2 on the hub stores `h.0...` where the model says `transformer.h.0...`."""
    from safetensors.torch import load_file, save_file

    model = models.build("gpt2", n_layer=1)
    folder = models.save(model, tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    save_file({n.removeprefix("transformer."): t for n, t in tensors.items()}, folder / "model.safetensors")
    path = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=7)
    assert "transformer.h.0.mlp.c_fc.weight" in weights(path)
    assert_same_logits(model, path, 1, 7)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_weights_keep_their_type(dtype: torch.dtype, tmp_path: Path) -> None:
    model = models.build("llama", num_hidden_layers=1, dtype=dtype)
    path = mebp.export(models.save(model, tmp_path / "model"), tmp_path / "out" / "model.onnx", seq_len=6)
    check(path)
    expected = onnx.TensorProto.BFLOAT16 if dtype == torch.bfloat16 else onnx.TensorProto.FLOAT16
    assert {t.data_type for t in weights(path).values()} == {expected}


def test_attention_gives_what_transformers_gives(tmp_path: Path) -> None:
    """A model may look at its result as it lies in memory."""
    from types import SimpleNamespace

    from mebp.exporter.attention import _attention

    q, k = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8)
    output, _ = _attention(SimpleNamespace(is_causal=True), q, k, k, None)
    assert output.shape == (2, 6, 4, 8) and output.is_contiguous()


def test_checkpoints_of_older_names(tmp_path: Path) -> None:
    """GPT-NeoX on the hub stores `embed_out.weight` where transformers says `lm_head.weight` by now, and an older one
    does not yet."""
    model = models.build("gpt_neox")
    folder = models.save(model, tmp_path / "model")
    assert "embed_out.weight" in read_checkpoint(folder)
    path = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=7)
    assert ("lm_head.weight" if models.IS_NEWEST else "embed_out.weight") in weights(path)
    assert_same_logits(model, path, 1, 7)


@pytest.mark.parametrize("family", ["cohere", "falcon", "gptj", "gpt_neo", "bloom", "mpt", "openai-gpt"])
def test_classes_that_know_no_attention_of_others_or_make_tensors_of_their_own(family: str, tmp_path: Path) -> None:
    model = models.build(family)
    assert_same_logits(model, mebp.export(model, tmp_path / "model.onnx", seq_len=7), 1, 7)


def test_biases_that_transformers_rounds_are_said(tmp_path: Path) -> None:
    said: list[str] = []
    for family in ("falcon_alibi", "bloom"):
        model = models.build(family, num_hidden_layers=1)
        mebp.export(model, tmp_path / family / "model.onnx", seq_len=7, progress=said.append)
    note = "the biases by position of falcon are exact; transformers rounds them to bfloat16 in any precision"
    assert [line for line in said if "biases" in line] == [note]


def test_mixed_types_compute_in_f32(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    model = models.build("llama", num_hidden_layers=1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.copy_(parameter.to(torch.bfloat16))
    folder = models.save(model, tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    mixed = {n: t if "norm" in n else t.to(torch.bfloat16) for n, t in tensors.items()}
    save_file(mixed, folder / "model.safetensors")
    path = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=6)
    assert {t.data_type for t in weights(path).values()} == {onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16}
    assert_same_logits(model, path, 1, 6)


def test_shape_only_needs_just_the_config(llama: tuple, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_bytes((llama[1] / "config.json").read_bytes())
    path = mebp.export(tmp_path / "model", tmp_path / "out" / "model.onnx", seq_len=8, shape_only=True)
    assert metadata(path)["mebp.shape_only"] == "1"
    assert {place(t)["location"] for t in weights(path).values()} == {"shape-only"}
    assert sorted(p.name for p in path.parent.iterdir()) == ["model.onnx", "tokenizer"]


def test_numbers_of_a_class_are_constants(tmp_path: Path) -> None:
    """As xIELU's, which the checkpoint has, too; without one, they are those that the class is made with."""
    model = models.build("apertus", num_hidden_layers=1)
    model.model.layers[0].mlp.act_fn.beta.fill_(0.25)
    folder = models.save(model, tmp_path / "model")
    path = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=6)
    assert not [name for name in weights(path) if name.endswith(("beta", "eps"))]
    assert_same_logits(model, path, 1, 6)
    (tmp_path / "shape").mkdir()
    (tmp_path / "shape" / "config.json").write_bytes((folder / "config.json").read_bytes())
    path = mebp.export(tmp_path / "shape", tmp_path / "shapes" / "model.onnx", seq_len=6, shape_only=True)
    numbers = {t.name: t for t in onnx.load(path, load_external_data=False).graph.initializer}
    assert onnx.numpy_helper.to_array(numbers["model.layers.0.mlp.act_fn.beta"]) == 0.5


def test_model_object_is_saved_beside(tmp_path: Path) -> None:
    model = models.build("qwen2", num_hidden_layers=1)
    path = mebp.export(model, tmp_path / "out" / "model.onnx", seq_len=9)
    assert_same_logits(model, path, 1, 9)
    assert not path.with_name("model.safetensors").is_symlink()
    assert [p for p in path.parent.iterdir() if p.name.startswith(".")] == []
    # A changed model replaces what it left there before.
    with torch.no_grad():
        model.model.norm.weight.mul_(2)
    assert_same_logits(model, mebp.export(model, path, seq_len=9), 1, 9)


def test_tokenizer_travels_along(llama: tuple, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for file in llama[1].iterdir():
        os.link(file, folder / file.name)
    mebp.export(folder, tmp_path / "a" / "model.onnx", seq_len=4)
    assert capsys.readouterr().err.startswith("warning: model comes without a tokenizer; ")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (folder / name).write_text("{}")
    mebp.export(folder, tmp_path / "b" / "model.onnx", seq_len=4)
    said = capsys.readouterr().err
    assert said.startswith("note: model: its chat template does not come in pieces, so C cannot use it: tokenizer/tok")
    assert said.count("\n") == 1
    copied = {p.name for p in (tmp_path / "b" / "tokenizer").iterdir()}
    tokenizer = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}
    assert copied == tokenizer | {"config.json", "generation_config.json"}


def test_import_is_light() -> None:
    code = "import sys, mebp; mebp.Error; assert callable(mebp.export); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": _root()}).returncode == 0


def _root() -> str:
    return str(Path(mebp.__file__).parent.parent)


def test_copies_that_differ_are_not_tied(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    model = models.build("qwen2", num_hidden_layers=1)
    folder = models.save(model, tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"] * 2}, folder / "model.safetensors")
    path = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=5)
    assert "mebp.tied" not in metadata(path)
    assert {"lm_head.weight", "model.embed_tokens.weight"} <= set(weights(path))
    save_file({**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, folder / "model.safetensors")
    assert "mebp.tied" in metadata(mebp.export(folder, tmp_path / "again" / "model.onnx", seq_len=5))


def test_length_dependent_frequencies(tmp_path: Path) -> None:
    rope = {"rope_type": "longrope", "rope_theta": 1e4}
    rope |= {"short_factor": [1.0 + 0.1 * i for i in range(12)], "long_factor": [2.0 + i for i in range(12)]}
    model = models.build("phi3", num_hidden_layers=1, rope_parameters=rope, original_max_position_embeddings=64)
    path = mebp.export(models.save(model, tmp_path / "model"), tmp_path / "out" / "model.onnx", seq_len=50)
    assert metadata(path)["mebp.sequence_limit"] == "64"
    assert_same_logits(model, path, 1, 50)


def test_length_dependent_frequencies_and_scales(tmp_path: Path) -> None:
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 64}
    rope |= {"short_factor": [1.0 + 0.1 * i for i in range(12)], "long_factor": [2.0 + i for i in range(12)]}
    rope |= {"short_mscale": 1.2, "long_mscale": 1.7}
    model = models.build("phimoe", num_hidden_layers=1, rope_parameters=rope)
    path = mebp.export(models.save(model, tmp_path / "model"), tmp_path / "out" / "model.onnx", seq_len=50)
    assert metadata(path)["mebp.sequence_limit"] == "64"
    assert_same_logits(model, path, 1, 50)


@pytest.mark.parametrize(("seq_len", "limit"), [(12, "16"), (20, "512")])
def test_window_bounds_the_length(seq_len: int, limit: str, tmp_path: Path) -> None:
    model = models.build("mistral", num_hidden_layers=1, sliding_window=16)
    path = mebp.export(models.save(model, tmp_path / "model"), tmp_path / "out" / "model.onnx", seq_len=seq_len)
    assert metadata(path)["mebp.sequence_limit"] == limit
    assert_same_logits(model, path, 1, seq_len)
