# SPDX-License-Identifier: Apache-2.0
"""A folder that bitsandbytes quantised to NF4, from export to training: a run trains on the numbers that bitsandbytes
makes of it, bit for bit."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import mebp
from mebp.cli import main
from mebp.inspect import inspect, storage_options
from support import models
from support.commands import bundle_of, refusal_in_process
from support.judges import judge
from support.textmodel import TEXT, make_tokenizer

LINEAR = re.compile(r"(self_attn|mlp)\.\w+_proj\.weight$")
TOKENS = np.arange(16, dtype=np.int64)[None] * 3 % 64


def make(folder: Path, nested: bool, dtype: torch.dtype = torch.bfloat16) -> dict[str, np.ndarray]:
    """Such a folder; returns what its weights are in f32."""
    functional = judge("bitsandbytes").functional
    sizes = {"hidden_size": 128, "head_dim": 32, "intermediate_size": 256}  # for bitsandbytes' kernel, whole blocks
    model = models.build("llama", num_hidden_layers=1, dtype=dtype, **sizes)
    models.save(model, folder)
    make_tokenizer(folder)
    tensors, meant = load_file(folder / "model.safetensors"), {}
    for name, values in list(tensors.items()):
        meant[name] = values.float().numpy()
        if LINEAR.search(name):
            codes, state = functional.quantize_4bit(values, quant_type="nf4", compress_statistics=nested)
            tensors[name] = codes
            tensors |= {f"{name}.{part}": each for part, each in state.as_dict(packed=True).items()}
            meant[name] = functional.dequantize_4bit(codes, state).float().numpy()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "bitsandbytes",
        "load_in_4bit": True,
        "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": nested,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return meant


def same(session: mebp.Session, meant: dict[str, np.ndarray]) -> None:
    found = session.base_weights()
    assert meant.keys() <= {*found, "lm_head.weight"}
    for name, values in meant.items():
        assert np.array_equal(found[name], values), name


@pytest.mark.parametrize("nested", [False, True], ids=["plain", "double"])
def test_the_command_that_export_prints_keeps_every_number(nested, tmp_path, capsys):
    meant = make(tmp_path / "nf4", nested)
    onnx, bundle = tmp_path / "out/model.onnx", tmp_path / "nf4.mebp"
    assert main(["export", str(tmp_path / "nf4"), "-o", str(onnx), "--seq-len", "16"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("-o out.mebp")
    mebp.compile(onnx, bundle, precision="f32", rates="none")
    session = mebp.Session(bundle, lr=1e-2)
    same(session, meant)
    before = session.step(TOKENS, TOKENS).loss
    assert session.step(TOKENS, TOKENS).loss < before
    same(session, meant)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_a_run_keeps_every_number_unless_fewer_bits_are_asked_for(dtype, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    meant = make(tmp_path / "nf4", nested=True, dtype=dtype)
    (tmp_path / "data.txt").write_text(TEXT)
    given = ["train", str(tmp_path / "nf4"), "--data", str(tmp_path / "data.txt"), "--steps", "1", "--seq-len", "16"]
    assert main(given) == 0
    said = capsys.readouterr().out
    same(mebp.Session(bundle_of(said)), meant)

    (most,) = re.findall(r"a bundle keeps all of them, .* loses at most (\S+)% of a", said)
    assert main([*given, "--weights", "int8"]) == 0
    bundle = bundle_of(capsys.readouterr().out)
    assert storage_options(inspect(bundle))["weights"] == "int8"
    found = mebp.Session(bundle).base_weights()
    lost = [np.linalg.norm(found[name] - values) / np.linalg.norm(values)
            for name, values in meant.items() if LINEAR.search(name)]  # fmt: skip
    assert 100 * max(lost) == pytest.approx(float(most), abs=0.006), "the number is said with two digits"


@pytest.mark.parametrize("lacking", ["absmax", "nested_absmax", "quant_map", "nested_quant_map"])
def test_statistics_that_lack_leave_nothing(lacking, tmp_path, capsys):
    make(tmp_path / "nf4", nested=True)
    tensors = load_file(tmp_path / "nf4/model.safetensors")
    name = next(name for name in tensors if name.endswith(f".{lacking}"))
    del tensors[name]
    save_file(tensors, tmp_path / "nf4/model.safetensors", {"format": "pt"})
    capsys.readouterr()
    before = sorted(tmp_path.rglob("*"))
    assert main(["export", str(tmp_path / "nf4"), "-o", str(tmp_path / "out/model.onnx"), "--seq-len", "16"]) == 2
    *notes, line = capsys.readouterr().err.splitlines()
    assert line == f"mebp: {tmp_path / 'nf4'}: no tensor '{name}' beside its scales; download it again"
    assert all(note.startswith("note: ") for note in notes) and sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("method", ["awq", "gptq", "hqq"])
def test_other_methods_are_refused_by_name(method, tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": method, "bits": 4}}))
    line = refusal_in_process(capsys, "export", tmp_path, "-o", tmp_path / "out/model.onnx")
    assert line == (
        f"mebp: {tmp_path}: already quantised ({method}); export the full-precision model instead, mebpc quantises it\n"
    )
    assert not (tmp_path / "out").exists()
