# SPDX-License-Identifier: Apache-2.0
"""Folders that MLX quantised are exported to the numbers that they mean."""

import json
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import mebp
from mebp.cli import main
from mebp.inspect import inspect
from mebp.tools import find_tool
from support import models, whole_models
from support.judges import judge

TOKENS = np.arange(16, dtype=np.int64)[None] * 3 % 64

# What mlx-lm looks for in the config.json of such a model, as it was published, and the sizes that it can have there.
# Gemma 3's width has a root that MLX-LM, which computes with it in bf16, does not round.
_GEMMA3 = (
    {"hidden_size": 64, "num_hidden_layers": 6, "layer_types": ["sliding_attention"] * 5 + ["full_attention"]},
    {"sliding_window_pattern": 6, "rope_theta": 1e6, "rope_local_base_freq": 1e4},
)
_LINEAR = {"num_hidden_layers": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"],
           "linear_key_head_dim": 32, "linear_value_head_dim": 32}  # fmt: skip
_MIXED = {"head_dim": 32, "moe_intermediate_size": 64}
PUBLISHED = {
    "gemma3_text": _GEMMA3,
    "gemma3": _GEMMA3,
    "qwen2_moe": (
        {**_MIXED, "shared_expert_intermediate_size": 64, "norm_topk_prob": False},
        {"num_experts": 6, "rope_theta": 1e4},
    ),
    "qwen3_moe": (_MIXED, {"num_experts": 6, "rope_theta": 1e4}),
    "granitemoe": (_MIXED, {}),
    "lfm2_moe": (
        {**_MIXED, "tie_word_embeddings": True},
        {"num_experts": 6, "num_experts_per_tok": 3, "rope_theta": 1e6, "conv_bias": False},
    ),
    "lfm2": (
        {"head_dim": 32, "tie_word_embeddings": True},
        {"block_dim": 128, "block_ff_dim": 256, "block_multiple_of": 32, "block_ffn_dim_multiplier": 1.0,
         "conv_dim": 128, "rope_theta": 1e6},
    ),
    "qwen3_next": (
        {**_MIXED, **_LINEAR, "shared_expert_intermediate_size": 64}, {"full_attention_interval": 4, "num_experts": 6}
    ),
    "qwen3_5": ({**_LINEAR, "linear_num_key_heads": 2, "linear_num_value_heads": 4}, {"full_attention_interval": 4}),
}  # fmt: skip


def published(folder: Path, family: str) -> Path:
    """A tiny model in float32 with the names of its hub's repository, where mlx-lm looks for them."""
    sizes, fields = PUBLISHED.get(family, ({}, {}))
    sizes = {"hidden_size": 128, "intermediate_size": 256, **sizes}
    if family in whole_models.FIELDS:
        text = whole_models.FIELDS[family]["text_config"]
        whole_models.build(family, text_config={**text, "head_dim": 32, **sizes}).save_pretrained(folder)
        tensors = load_file(folder / "model.safetensors")
        if family == "gemma3":  # whose repositories are of an older transformers
            older = {"model.language_model.": "language_model.model.", "model.": ""}
            start = {name: next((s for s in older if name.startswith(s)), "") for name in tensors}
            tensors = {older.get(s, "") + name.removeprefix(s): tensors[name] for name, s in start.items()}
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    else:
        models.save(models.build(family, **sizes), folder)
    file = folder / "config.json"
    config = json.loads(file.read_text())
    text = config.get("text_config", config)
    text |= text.get("rope_parameters", {}) | fields
    file.write_text(json.dumps({**config, "vocab_size": text["vocab_size"]}))
    return folder


def converted(folder: Path, family: str = "llama", dtype: str = "float32", **options: object) -> Path:
    """A tiny model that mlx-lm has quantised."""
    judge("mlx_lm")
    import mlx.core as mx
    from mlx_lm.utils import load_model, quantize_model, save_config, save_model

    model, fields = load_model(published(folder / "whole", family))
    model.set_dtype(getattr(mx, dtype))
    if options.get("bits", 4) is not None:
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
    expected, logits = of_mlx(folder, TOKENS)
    found = session.base_weights()
    assert expected
    for name, values in expected.items():
        assert np.allclose(found[name], values, rtol=0, atol=1e-7 * np.abs(values).max()), name
    ours = session.logits(TOKENS)
    assert np.abs(ours - logits).max() < 1e-4


@pytest.mark.parametrize("family", sorted(PUBLISHED.keys() - {"granitemoe"}))
def test_what_mlx_has_in_other_forms(family: str, tmp_path: Path, capsys) -> None:
    """Experts in one tensor, kernels with channels last, norms with their 1, and the text of models that take more."""
    folder = converted(tmp_path, family, bits=4, group_size=32)
    onnx = tmp_path / "out" / "model.onnx"
    assert main(["export", str(folder), "-o", str(onnx), "--seq-len", "16"]) == 0
    command = shlex.split(capsys.readouterr().out.splitlines()[-1].partition("; next: ")[2])
    exact = ["--weights", "f32", "--embedding-weights", "f32", "--precision", "f32", "--rates", "none"]
    subprocess.run([find_tool("mebpc"), onnx, "-o", tmp_path / "exact.mebp", *exact], check=True, capture_output=True)
    session = mebp.Session(tmp_path / "exact.mebp", lr=1e-2)
    _, logits = of_mlx(folder, TOKENS)
    assert np.linalg.norm(session.logits(TOKENS) - logits) <= 1e-4 * np.linalg.norm(logits)
    before = session.step(TOKENS, TOKENS).loss
    assert session.step(TOKENS, TOKENS).loss < before
    # The command that export prints.
    subprocess.run([find_tool("mebpc"), *command[1:]], check=True, capture_output=True, cwd=tmp_path)


@pytest.mark.parametrize("family", ["lfm2_moe", "qwen3_5"])
def test_a_folder_that_mlx_did_not_quantise(family: str, tmp_path: Path) -> None:
    folder = converted(tmp_path, family, bits=None)
    exported = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=16)
    mebp.compile(exported, tmp_path / "tiny.mebp", weights="f32", precision="f32", rates="none")
    _, logits = of_mlx(folder, TOKENS)
    ours = mebp.Session(tmp_path / "tiny.mebp").logits(TOKENS)
    assert np.linalg.norm(ours - logits) <= 1e-4 * np.linalg.norm(logits)


def test_other_types_are_refused_by_name(tmp_path: Path, capsys) -> None:
    folder = converted(tmp_path, "granitemoe", bits=4, group_size=32)
    assert main(["export", str(folder), "-o", str(tmp_path / "out/model.onnx"), "--seq-len", "16"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"mebp: {folder}: no tensor 'model.layers.0.block_sparse_moe.")
    assert line.endswith("; MLX stored it in its own form; export the model that it was converted from")
    assert not (tmp_path / "out").exists()


def test_training_and_merging_leave_no_codes(tmp_path: Path) -> None:
    folder = converted(tmp_path, bits=4, group_size=64)
    exported = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=16)
    mebp.compile(
        exported, tmp_path / "tiny.mebp", weights="f32", embedding_weights="f32", precision="f32", rates="none"
    )
    session = mebp.Session(tmp_path / "tiny.mebp", lr=1e-2)
    before = session.step(TOKENS, TOKENS).loss
    assert session.step(TOKENS, TOKENS).loss < before
    session.save_adapter(tmp_path / "adapter")
    mebp.merge(tmp_path / "tiny.mebp", tmp_path / "adapter", tmp_path / "merged")
    assert not [key for key in json.loads((tmp_path / "merged" / "config.json").read_text()) if "quant" in key]
    _, logits = of_mlx(tmp_path / "merged", TOKENS)
    assert np.linalg.norm(session.logits(TOKENS) - logits) <= 1e-4 * np.linalg.norm(logits)


def test_merging_onto_the_published_weights_keeps_what_bf16_would_not(tmp_path: Path) -> None:
    folder = converted(tmp_path, bits=4, group_size=32, dtype="bfloat16")
    exported = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=16)
    mebp.compile(exported, tmp_path / "tiny.mebp", rates="none")
    mebp.Session(tmp_path / "tiny.mebp").save_adapter(tmp_path / "adapter")  # which adds nothing yet
    mebp.merge(tmp_path / "tiny.mebp", tmp_path / "adapter", tmp_path / "merged", onto="published", base=folder)
    found = load_file(tmp_path / "merged" / "model.safetensors")
    expected, _ = of_mlx(folder)
    assert any(not torch.equal(each, each.bfloat16().float()) for each in map(torch.from_numpy, expected.values()))
    for name, values in expected.items():
        assert np.allclose(found[name].numpy(), values, rtol=0, atol=1e-7 * np.abs(values).max()), name


FORMS = [
    ({"bits": 4, "group_size": 32}, "int4"),
    ({"bits": 4, "group_size": 128}, "int4"),
    ({"bits": 8, "group_size": 64}, "int8"),
    ({"bits": 4, "group_size": 32, "mode": "mxfp4"}, "mxfp4"),
]


@pytest.mark.parametrize(("options", "storage"), FORMS)
def test_a_bundle_keeps_every_number(options: dict, storage: str, tmp_path: Path, capsys) -> None:
    """Without being asked to: of groups of 64 the scales are there twice."""
    folder = converted(tmp_path, dtype="bfloat16", **options)
    exported = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=16)
    assert f"of {options['bits']} bits keep every number as {storage}" in capsys.readouterr().err
    mebp.compile(exported, tmp_path / "tiny.mebp", precision="f32", rates="none")
    session = mebp.Session(tmp_path / "tiny.mebp")
    expected, logits = of_mlx(folder, TOKENS)
    for name, values in expected.items():
        assert np.array_equal(session.base_weights()[name], values), name
    storages = {weight["name"]: weight["storage"] for weight in inspect(tmp_path / "tiny.mebp")["weights"]}
    assert {storages[name] for name in expected} == {storage}
    assert np.linalg.norm(session.logits(TOKENS) - logits) <= 1e-4 * np.linalg.norm(logits)


def test_scales_that_f16_does_not_hold_are_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = converted(tmp_path, bits=4, group_size=64, dtype="bfloat16")
    tensors = load_file(folder / "model.safetensors")
    name = "model.layers.0.mlp.down_proj"
    tensors[f"{name}.scales"][0, 0] = 1e-7
    save_file(tensors, folder / "model.safetensors", {"format": "mlx"})
    exported = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=16)
    said = capsys.readouterr().err
    assert f"1 of 4 bits are stored as f32, the same numbers, for f16 does not hold their scales: {name}\n" in said
    mebp.compile(exported, tmp_path / "tiny.mebp", rates="none")
    found = mebp.Session(tmp_path / "tiny.mebp").base_weights()
    for each, values in of_mlx(folder)[0].items():
        assert np.array_equal(found[each], values), each


def test_mixed_by_layer(tmp_path: Path) -> None:
    def form(path: str, layer: object) -> dict | bool:
        return {"bits": 8 if path.endswith(("v_proj", "embed_tokens")) else 4, "group_size": 64}

    folder = converted(tmp_path, bits=4, group_size=64, quant_predicate=form, dtype="bfloat16")
    exported = mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=16)
    mebp.compile(exported, tmp_path / "tiny.mebp", rates="none")
    quantised = of_mlx(folder)[0]
    assert len(quantised) > 10
    for weight in inspect(tmp_path / "tiny.mebp")["weights"]:
        if weight["name"] in quantised:
            is_wide = weight["name"].endswith(("v_proj.weight", "embed_tokens.weight"))
            assert weight["storage"] == ("int8" if is_wide else "int4"), weight["name"]


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
