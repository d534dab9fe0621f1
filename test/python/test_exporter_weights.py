# SPDX-License-Identifier: Apache-2.0
"""Weights that a checkpoint does not have as the model asks for them: what it has in their place is named."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mebp.errors import Error
from mebp.exporter.checkpoint import read_checkpoint
from mebp.exporter.weights import locate

Q = "model.layers.0.self_attn.q_proj"
WEIGHTS = "model.safetensors"


@pytest.mark.parametrize(
    ("renamed", "words"),
    [
        (f"base_model.model.{Q}.base_layer.weight", "part of an adapter; merge it (PEFT's merge_and_unload)"),
        (f"{Q}.original_module.weight", "part of an adapter; merge it (PEFT's merge_and_unload)"),
        (f"_orig_mod.{Q}.weight", f"the checkpoint calls it '_orig_mod.{Q}.weight'; rename the tensors, or save"),
        (f"{Q}.qweight", f"the checkpoint has '{Q}.qweight'; export the full-precision model instead"),
        (f"{Q}.kernel", "either the two do not belong together, or the weights are stored in a form"),
    ],
)
def test_a_tensor_under_another_name(renamed: str, words: str, tmp_path: Path) -> None:
    tensors = {f"{Q}.weight": torch.zeros(8, 8), "lm_head.weight": torch.zeros(8, 8)}
    tensors[renamed] = tensors.pop(f"{Q}.weight")
    save_file(tensors, tmp_path / WEIGHTS)
    line = not_located(tmp_path)
    assert line.startswith(f"{tmp_path}: no tensor '{Q}.weight', which its config.json asks for; ")
    assert words in line


def test_a_form_of_mlx(tmp_path: Path) -> None:
    """What is quantised is packed in words of 32 bits, experts are stacked under other names."""
    tensors = {f"{Q}.weight": torch.zeros(8, 8), "lm_head.weight": torch.zeros(8, 8)}
    packed = {**tensors, f"{Q}.weight": torch.zeros(8, 1, dtype=torch.uint32)}
    save_file(packed, tmp_path / WEIGHTS, {"format": "mlx"})
    of_mlx = "MLX stored it in its own form; export the model that it was converted from"
    line = f"{tmp_path / WEIGHTS}: tensor '{Q}.weight' is [8, 1], config.json makes it [8, 8]; {of_mlx}"
    assert not_located(tmp_path) == line
    tensors["model.layers.0.mlp.switch_mlp.up_proj.weight"] = tensors.pop(f"{Q}.weight")
    save_file(tensors, tmp_path / WEIGHTS, {"format": "mlx"})
    assert not_located(tmp_path) == f"{tmp_path}: no tensor '{Q}.weight', which its config.json asks for; {of_mlx}"


def not_located(tmp_path: Path) -> str:
    with pytest.raises(Error) as caught:
        locate({f"{Q}.weight": (8, 8)}, {}, "model", read_checkpoint(tmp_path), tmp_path)
    return str(caught.value)
