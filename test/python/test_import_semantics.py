# SPDX-License-Identifier: Apache-2.0
"""What the importer makes of a graph computes what the model computes, at another batch and sequence than exported."""

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from transformers import AttentionInterface

import mebp
from mebp.exporter import attention
from mebp.tools import find_tool
from support import models
from support.exports import export
from support.nn_text import NNText


def assert_same_model(model: torch.nn.Module, path: Path) -> None:
    command = [find_tool("mebpc"), path, "--emit", "nn"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    ids = models.token_ids(model, 3, 37)
    # Falcon's own formula adds its biases by position twice.
    model.config._attn_implementation = "sdpa" if model.config.model_type == "falcon" else "eager"
    with torch.no_grad():
        expected = model.double()(ids, use_cache=False).logits.numpy()
    actual = NNText(text).run(ids.numpy())
    # A gated DeltaNet computes in float32 in transformers, whatever its model's type.
    bound = 1e-5 if models.is_recurrent(model) else 1e-6
    assert np.linalg.norm(actual - expected) <= bound * np.linalg.norm(expected)


def export_plainly(model: torch.nn.Module, path: Path, opset: int, attention: str, dynamic: bool) -> Path:
    """As torch exports it, without this project's exporter."""
    model.config._attn_implementation = attention
    model.config.use_cache = False
    dimensions = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
    torch.onnx.export(
        model,
        kwargs={"input_ids": models.token_ids(model, 2, 24)},
        f=path,
        dynamo=True,
        opset_version=opset,
        optimize=False,
        output_names=["logits"],
        verbose=False,
        external_data=False,
        dynamic_shapes={"input_ids": dimensions} if dynamic else None,
    )
    graph = onnx.load(path)
    onnx.save(graph, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


@pytest.mark.parametrize("family", models.ALL_FAMILIES)
def test_exported(family: str, tmp_path: Path) -> None:
    model = models.build(family)
    assert_same_model(model, export(model, tmp_path / "model.onnx", seq_len=24, batch=2))


def test_window(tmp_path: Path) -> None:
    model = models.build("mistral", sliding_window=7)
    assert_same_model(model, mebp.export(model, tmp_path / "model.onnx", seq_len=24, batch=2))


def test_window_that_only_the_mask_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Qwen2-MoE, PhiMoE and Doge have it."""

    def attend(*arguments: object, sliding_window: int, **options: object) -> object:
        return attention._attention(*arguments, **options)

    monkeypatch.setitem(AttentionInterface._global_mapping, attention.NAME, attend)
    model = models.build("mistral", sliding_window=7)
    assert_same_model(model, mebp.export(model, tmp_path / "model.onnx", seq_len=24, batch=2))


def test_constants_of_a_bf16_checkpoint_are_not_rounded(tmp_path: Path) -> None:
    model = models.build("gemma3_text", dtype=torch.bfloat16)
    path = mebp.export(model, tmp_path / "model.onnx", seq_len=24)
    text = subprocess.run([find_tool("mebpc"), path, "--emit", "nn"], check=True, capture_output=True, text=True).stdout
    assert float(re.search(r"nn.scale.*alpha = ([\d.]+)", text)[1]) == pytest.approx(96**0.5, rel=1e-6)


def test_partial_rotary(tmp_path: Path) -> None:
    rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    model = models.build("phi3", rope_parameters=rope)
    assert_same_model(model, mebp.export(model, tmp_path / "model.onnx", seq_len=24, batch=1))


@pytest.mark.parametrize(
    ("family", "opset", "attention", "dynamic"),
    [
        ("llama", 18, "sdpa", False),
        ("llama", 20, "eager", True),
        ("llama", 23, "sdpa", True),
        ("gemma3_text", 18, "sdpa", False),
        ("gpt2_tanh", 18, "eager", False),
        ("phi3", 18, "eager", False),
        ("mistral", 18, "sdpa", False),
        ("falcon_alibi", 23, "sdpa", False),
        ("mpt", 18, "eager", False),
    ],
)
def test_plain(family: str, opset: int, attention: str, dynamic: bool, tmp_path: Path) -> None:
    model = models.build(family, **({"sliding_window": 7} if family == "mistral" else {}))
    assert_same_model(model, export_plainly(model, tmp_path / "model.onnx", opset, attention, dynamic))
