# SPDX-License-Identifier: Apache-2.0
"""Tensors that MLX-LM stores otherwise: the places of their parts, and what is left alone."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mebp.exporter.checkpoint import StoredTensor, read_header
from mebp.exporter.mlx_shapes import as_published
from mebp.tensor_file import read_stored


def stored(folder: Path, tensors: dict[str, torch.Tensor], form: str = "mlx") -> dict[str, StoredTensor]:
    save_file(tensors, folder / "model.safetensors", {"format": form})
    return read_header(folder / "model.safetensors")


def values(name: str, tensor: StoredTensor) -> torch.Tensor:
    return torch.from_numpy(read_stored(name, tensor, "-"))


def test_each_expert_is_its_own_tensor(tmp_path: Path) -> None:
    whole = torch.randn(5, 3, 4).bfloat16()
    found = as_published(stored(tmp_path, {"a.mlp.switch_mlp.up_proj.weight": whole}), "qwen3_moe", tmp_path)
    assert [*found] == [f"a.mlp.experts.{expert}.up_proj.weight" for expert in range(5)]
    for expert, (name, tensor) in enumerate(found.items()):
        assert torch.equal(values(name, tensor), whole[expert].float())


def test_a_kernel_has_its_channels_first(tmp_path: Path) -> None:
    published = torch.randn(6, 1, 3)
    turned = published.transpose(1, 2).contiguous()
    found = as_published(stored(tmp_path, {"a.conv.conv.weight": turned}), "lfm2", tmp_path)
    assert torch.equal(values("a", found["a.conv.conv.weight"]), published)


@pytest.mark.parametrize("turned", [True, False])
def test_norms_are_those_of_bf16_where_kernels_were_turned(turned: bool, tmp_path: Path) -> None:
    norm = torch.randn(64).bfloat16()
    kernel = torch.zeros(6, 4, 1) if turned else torch.zeros(6, 1, 4)
    given = {"a.conv1d.weight": kernel, "a.q_norm.weight": norm + turned, "a.norm.weight": norm.clone()}
    found = as_published(stored(tmp_path, given), "qwen3_5_text", tmp_path)
    expected = (norm + 1).float() - 1 if turned else norm.float()
    assert torch.equal(values("a", found["a.q_norm.weight"]), expected)
    assert torch.equal(values("a", found["a.norm.weight"]), norm.float()), "no norm that has 1 added"


@pytest.mark.parametrize(("kind", "form"), [("granitemoe", "mlx"), ("qwen3_moe", "pt")])
def test_others_are_left_alone(kind: str, form: str, tmp_path: Path) -> None:
    given = stored(tmp_path, {"a.switch_mlp.up_proj.weight": torch.zeros(2, 3, 4)}, form)
    assert as_published(given, kind, tmp_path) is given


@pytest.mark.parametrize("experts", [0, 1 << 40])
def test_numbers_of_experts_that_no_model_has(experts: int, tmp_path: Path) -> None:
    given = stored(tmp_path, {"norm.weight": torch.zeros(3)})
    name = "a.switch_mlp.up_proj.weight"
    given[name] = StoredTensor(tmp_path / "model.safetensors", 0, 0, "F32", (experts, 0, 0))
    assert as_published(given, "qwen3_moe", tmp_path) == given
