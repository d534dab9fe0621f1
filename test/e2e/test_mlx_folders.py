# SPDX-License-Identifier: Apache-2.0
"""Folders that MLX quantised are exported to the numbers that they mean."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import mebp
from mebp.cli.export import _storage
from mebp.exporter.mlx import loss_of
from support import models
from support.judges import judge


def converted(folder: Path, family: str = "llama", dtype: str = "float32", **options: object) -> Path:
    """A tiny model that mlx-lm has quantised."""
    judge("mlx_lm")
    import mlx.core as mx
    from mlx_lm.utils import load_model, quantize_model, save_config, save_model

    models.save(models.build(family, hidden_size=128, intermediate_size=256), folder / "whole")
    file = folder / "whole" / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, **config.get("rope_parameters", {})}))  # where mlx-lm looks for rope_theta
    model, fields = load_model(folder / "whole")
    model.set_dtype(getattr(mx, dtype))
    model, fields = quantize_model(model, fields, **options)
    (folder / "mlx").mkdir()
    save_model(folder / "mlx", model)
    save_config(fields, folder / "mlx" / "config.json")
    return folder / "mlx"


def of_mlx(folder: Path, tokens: np.ndarray | None = None) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Its weights and, for tokens, its logits in f32."""
    import mlx.core as mx
    from mlx_lm.utils import load_model

    model, _ = load_model(folder)
    model.set_dtype(mx.float32)
    found = {}
    for name, layer in model.named_modules():
        if hasattr(layer, "scales"):
            values = mx.dequantize(layer.weight, layer.scales, layer.get("biases"), layer.group_size, layer.bits,
                                   mode=layer.mode, dtype=mx.float32)  # fmt: skip
            found[f"{name}.weight"] = np.array(values)
    return found, np.array(model(mx.array(tokens))) if tokens is not None else np.zeros(0)


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("llama", {"bits": 4, "group_size": 32}),
        ("llama", {"bits": 4, "group_size": 64, "dtype": "bfloat16"}),
        ("qwen3", {"bits": 8, "group_size": 128}),
        ("qwen3", {"mode": "mxfp4", "bits": 4, "group_size": 32}),
    ],
)
def test_numbers_and_logits_are_those_of_mlx(family: str, options: dict, tmp_path: Path) -> None:
    folder = converted(tmp_path, family, **options)
    exported = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=16)
    bundle = tmp_path / "tiny.mebp"
    mebp.compile(exported, bundle, weights="f32", embedding_weights="f32", precision="f32", rates="none")
    session = mebp.Session(bundle)
    tokens = np.arange(16, dtype=np.int64)[None] * 3 % 64
    expected, logits = of_mlx(folder, tokens)
    found = session.base_weights()
    assert expected
    for name, values in expected.items():
        assert np.allclose(found[name], values, rtol=0, atol=1e-7 * np.abs(values).max()), name
    ours = session.logits(tokens)
    assert np.abs(ours - logits).max() < 1e-4


def test_training_and_merging_leave_no_codes(tmp_path: Path) -> None:
    folder = converted(tmp_path, bits=4, group_size=64)
    exported = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=16)
    mebp.compile(
        exported, tmp_path / "tiny.mebp", weights="f32", embedding_weights="f32", precision="f32", rates="none"
    )
    session = mebp.Session(tmp_path / "tiny.mebp", lr=1e-2)
    tokens = np.arange(16, dtype=np.int64)[None] * 3 % 64
    before = session.step(tokens, tokens).loss
    assert session.step(tokens, tokens).loss < before
    session.save_adapter(tmp_path / "adapter")
    mebp.merge(tmp_path / "tiny.mebp", tmp_path / "adapter", tmp_path / "merged")
    assert not [key for key in json.loads((tmp_path / "merged" / "config.json").read_text()) if "quant" in key]
    _, logits = of_mlx(tmp_path / "merged", tokens)
    assert np.linalg.norm(session.logits(tokens) - logits) <= 1e-4 * np.linalg.norm(logits)


@pytest.mark.parametrize("bits", [4, 8])
def test_what_is_lost_is_what_mebpc_loses(bits: int, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = converted(tmp_path, bits=bits, group_size=64)
    exported = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=16)
    said = capsys.readouterr().err
    assert f"of {bits} bits are quantised again as int{bits}, which loses at most" in said
    mebp.compile(exported, tmp_path / "tiny.mebp", weights=f"int{bits}", rates="none")
    found = mebp.Session(tmp_path / "tiny.mebp").base_weights()
    exact = load_file(tmp_path / "out" / "dequantised.safetensors")
    name = "model.layers.0.mlp.down_proj.weight"
    values = exact[name].numpy()
    lost = np.linalg.norm(found[name] - values) / np.linalg.norm(values)
    assert loss_of(values, f"int{bits}") == pytest.approx(lost, rel=1e-4)


def test_groups_that_use_all_codes_keep_every_number(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = converted(tmp_path, bits=4, group_size=64)
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith(".scales")]:
        layer = name.removesuffix(".scales")
        codes = tensors[f"{layer}.weight"].view(torch.uint8).clone()
        codes.reshape(-1, 16)[:, 0] = 0xF0  # each 32 columns have the lowest and the highest code
        tensors[f"{layer}.weight"] = codes.view(torch.uint32)
        tensors[name] = (tensors[name].abs() + 0.001).half().float()
        tensors[f"{layer}.biases"] = (-8 * tensors[name]).half().float()
    save_file(tensors, folder / "model.safetensors", {"format": "mlx"})
    exported = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=16)
    said = capsys.readouterr().err
    assert "of 4 bits keep every number as int4" in said and "quantised again" not in said
    mebp.compile(exported, tmp_path / "tiny.mebp", weights="int4", embedding_weights="int4", rates="none")
    found = mebp.Session(tmp_path / "tiny.mebp").base_weights()
    for name, values in of_mlx(folder)[0].items():
        assert np.array_equal(found[name], values), name


def test_mixed_by_layer(tmp_path: Path) -> None:
    def form(path: str, layer: object) -> dict | bool:
        return {"bits": 8 if path.endswith(("v_proj", "embed_tokens")) else 4, "group_size": 64}

    folder = converted(tmp_path, bits=4, group_size=64, quant_predicate=form)
    assert _storage(str(folder)) == " --weights-for '*.v_proj=int8'"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        *(({"bits": bits}, f"the weights are of {bits} bits by MLX, and 4 and 8 are read") for bits in (2, 3, 5, 6)),
        ({"mode": "nvfp4"}, "the weights are nvfp4 of MLX, and affine and mxfp4 are read"),
        ({"group_size": 16}, "the weights are in groups of 16 by MLX, and 32, 64 and 128 are read"),
        ({"lm_head": {"bits": 6, "group_size": 64}}, "lm_head is of 6 bits by MLX, and 4 and 8 are read"),
    ],
)
def test_forms_that_are_not_read(entry: dict, words: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"quantization": {"group_size": 64, "bits": 4, **entry}}))
    with pytest.raises(mebp.Error) as caught:
        mebp.export(tmp_path, tmp_path / "out" / "model.onnx")
    assert str(caught.value) == f"{tmp_path}: {words}; export the full-precision model instead, mebpc quantises it"
    assert not (tmp_path / "out").exists()


def test_codes_that_do_not_fit_their_scales(tmp_path: Path) -> None:
    folder = converted(tmp_path, bits=4, group_size=64)
    tensors = load_file(folder / "model.safetensors")
    name = "model.layers.0.mlp.down_proj.scales"
    tensors[name] = tensors[name][:, :-1].contiguous()
    save_file(tensors, folder / "model.safetensors", {"format": "mlx"})
    with pytest.raises(mebp.Error, match="which do not make 4 bits in groups of 64; download it again"):
        mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=16)
