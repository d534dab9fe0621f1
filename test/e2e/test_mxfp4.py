# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in MXFP4 are exported to the numbers that transformers makes of them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from transformers.integrations.mxfp4 import FP4_VALUES, convert_moe_packed_tensors

import mebp
from mebp.exporter.checkpoint import read_header
from mebp.exporter.mxfp4 import unpack
from support import models

EXPERTS = "model.layers.0.mlp.experts"


def pack(weights: torch.Tensor) -> dict[str, torch.Tensor]:
    """The nearest numbers in MXFP4: [experts, out, in] -> blocks and scales."""
    groups = weights.unflatten(-1, (-1, 32))
    exponents = groups.abs().amax(-1).log2().floor() - 2
    scaled = groups / exponents.exp2()[..., None]
    codes = (scaled[..., None] - torch.tensor(FP4_VALUES)).abs().argmin(-1).to(torch.uint8)
    return {"blocks": codes[..., ::2] | codes[..., 1::2] << 4, "scales": (exponents + 127).to(torch.uint8)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny gpt-oss in MXFP4."""
    folder = tmp_path_factory.mktemp("gpt-oss")
    models.save(models.build("gpt_oss", num_hidden_layers=1).bfloat16(), folder)
    tensors = load_file(folder / "model.safetensors")
    for name in ("gate_up_proj", "down_proj"):
        packed = pack(tensors.pop(f"{EXPERTS}.{name}").float().transpose(1, 2))
        tensors |= {f"{EXPERTS}.{name}_{part}": values for part, values in packed.items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    quantization = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": quantization}))
    return folder


def test_every_code_and_every_scale(tmp_path: Path) -> None:
    # Each byte with each scale whose numbers bf16 holds.
    scales = torch.arange(253, dtype=torch.uint8)[None, :, None]
    blocks = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16).expand(1, 253, 16, 16).contiguous()
    tensors = {"w_blocks": blocks, "w_scales": scales.expand(1, 253, 16).contiguous()}
    save_file(tensors, tmp_path / "packed.safetensors")
    (tmp_path / "made").mkdir()
    made = unpack(read_header(tmp_path / "packed.safetensors"), tmp_path / "made", "model")
    assert list(made) == ["w"]
    found = load_file(made["w"].file)["w"]
    expected = convert_moe_packed_tensors(tensors["w_blocks"], tensors["w_scales"])
    assert found.dtype == torch.bfloat16 and found.shape == expected.shape
    assert torch.equal(found.view(torch.int16), expected.view(torch.int16))


def test_export_has_the_weights_of_transformers(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    expected = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).state_dict()
    exported = mebp.export(folder, tmp_path / "model.onnx", seq_len=24)
    assert "note: the experts of" in capsys.readouterr().err
    bundle = tmp_path / "tiny.mebp"
    mebp.compile(exported, bundle, weights="f32", precision="f32", rates="none")
    session = mebp.Session(bundle)
    found = session.base_weights()
    assert found.keys() == expected.keys()
    for name, values in found.items():
        assert np.array_equal(values.reshape(expected[name].shape), expected[name].float().numpy()), name
    assert mebp.verify(bundle).agrees


@pytest.mark.parametrize(("weights", "most"), [("int4", 0.1), ("int8", 0.01), ("bf16", 0)])
def test_what_quantising_again_loses(folder: Path, tmp_path: Path, show: Callable, weights: str, most: float) -> None:
    expected = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).state_dict()
    exported = mebp.export(folder, tmp_path / "model.onnx", seq_len=24)
    mebp.compile(exported, tmp_path / "tiny.mebp", weights=weights, rates="none")
    found = mebp.Session(tmp_path / "tiny.mebp").base_weights()
    for name in ("gate_up_proj", "down_proj"):
        exact = expected[f"{EXPERTS}.{name}"].float().numpy()
        lost = found[f"{EXPERTS}.{name}"].reshape(exact.shape) - exact
        error = np.linalg.norm(lost) / np.linalg.norm(exact)
        show(f"{weights}, {name}: {error:.1%} of the norm")
        assert error <= most


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        (
            {"w_blocks": (1, 2, 3, 16), "w_scales": (1, 2, 4)},
            "blocks and the scales of 'w' are [1, 2, 3, 16] and [1, 2,",
        ),
        ({"w_blocks": (1, 2, 3, 8), "w_scales": (1, 2, 3)}, "which is not MXFP4 of 32 numbers each; download it again"),
        ({"w_blocks": (2, 3, 16), "w_scales": (2, 3)}, "which is not MXFP4 of 32 numbers each; download it again"),
    ],
)
def test_blocks_without_their_scales(tmp_path: Path, tensors: dict, words: str) -> None:
    save_file(
        {name: torch.ones(shape, dtype=torch.uint8) for name, shape in tensors.items()}, tmp_path / "a.safetensors"
    )
    with pytest.raises(mebp.Error) as caught:
        unpack(read_header(tmp_path / "a.safetensors"), tmp_path, "model")
    assert words in str(caught.value)


def test_a_scale_that_stands_for_no_number(tmp_path: Path) -> None:
    scales = torch.full((1, 2, 3), 127, dtype=torch.uint8)
    scales[0, 1, 2] = 255
    blocks = torch.zeros(1, 2, 3, 16, dtype=torch.uint8)
    save_file({"w_blocks": blocks, "w_scales": scales}, tmp_path / "a.safetensors")
    with pytest.raises(mebp.Error, match="'w' has a number that is not finite; download it again"):
        unpack(read_header(tmp_path / "a.safetensors"), tmp_path, "model")
