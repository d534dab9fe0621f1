# SPDX-License-Identifier: Apache-2.0
"""FP8 and NF4 become the very numbers that transformers and bitsandbytes make of them."""

import json
from importlib import import_module
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import mebp
from mebp.exporter.checkpoint import read_header
from mebp.exporter.rounded import unpack
from support import models
from support.judges import judge

OF_FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
OF_NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


def unpacked(tensors: dict[str, torch.Tensor], quantization: dict, folder: Path) -> torch.Tensor:
    save_file(tensors, folder / "model.safetensors")
    (folder / "made").mkdir()
    made = unpack(read_header(folder / "model.safetensors"), quantization, folder / "made", "model")
    assert list(made) == ["a.weight"]
    return load_file(made["a.weight"].file)["a.weight"]


def of_nf4(
    nested: bool, dtype: torch.dtype = torch.bfloat16, width: int = 384
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    functional = judge("bitsandbytes").functional
    values = torch.randn(96, width, generator=torch.Generator().manual_seed(0)).to(dtype)
    codes, state = functional.quantize_4bit(values, quant_type="nf4", compress_statistics=nested)
    tensors = {"a.weight": codes, **{f"a.weight.{name}": each for name, each in state.as_dict(packed=True).items()}}
    return tensors, functional.dequantize_4bit(codes, state)


def test_fp8_is_what_transformers_makes_of_it(tmp_path: Path) -> None:
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    codes = torch.arange(256 * 384).to(torch.uint8)
    codes[codes & 127 == 127] = 3  # which stand for no number
    weight = codes.reshape(256, 384).view(torch.float8_e4m3fn)
    scales = torch.rand(2, 3, generator=torch.Generator().manual_seed(0)) / 100
    expected = Fp8Dequantize(None)._dequantize_one(weight, scales, torch.bfloat16)
    found = unpacked({"a.weight": weight, "a.weight_scale_inv": scales}, OF_FP8, tmp_path)
    assert found.dtype == torch.bfloat16 and torch.equal(found.view(torch.int16), expected.view(torch.int16))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("nested", [False, True])
def test_nf4_is_what_bitsandbytes_makes_of_it(nested: bool, dtype: torch.dtype, tmp_path: Path) -> None:
    tensors, expected = of_nf4(nested, dtype)
    found = unpacked(tensors, OF_NF4, tmp_path)
    assert found.dtype == dtype and torch.equal(found, expected)


def test_blocks_that_go_on_in_the_next_row(tmp_path: Path) -> None:
    # bitsandbytes 0.50's own kernel for CPUs gives such blocks the scales of others; its generic one does not.
    tensors, _ = of_nf4(nested=False, width=352)
    generic = import_module("bitsandbytes.backends.default.ops")._dequantize_4bit_compute
    expected = generic(tensors["a.weight"].reshape(-1), tensors["a.weight.absmax"], tensors["a.weight.quant_map"], 64,
                       (96, 352), torch.bfloat16)  # fmt: skip
    assert torch.equal(unpacked(tensors, OF_NF4, tmp_path), expected)


@pytest.mark.parametrize("lacking", ["absmax", "quant_map", "nested_absmax", "nested_quant_map"])
def test_statistics_that_lack(lacking: str, tmp_path: Path) -> None:
    tensors, _ = of_nf4(nested=True)
    del tensors[f"a.weight.{lacking}"]
    with pytest.raises(mebp.Error, match=f"no tensor 'a.weight.{lacking}' beside its scales; download it again"):
        unpacked(tensors, OF_NF4, tmp_path)


def test_blocks_that_do_not_fit(tmp_path: Path) -> None:
    tensors = {"a.weight": torch.zeros(256, 128).to(torch.float8_e4m3fn), "a.weight_scale_inv": torch.ones(1, 1)}
    with pytest.raises(mebp.Error, match="which is not FP8 in blocks of 128 x 128; download it again"):
        unpacked(tensors, OF_FP8, tmp_path)


@pytest.mark.parametrize(
    ("quantization", "words"),
    [
        ({"quant_method": "fp8"}, "fp8 without weight_block_size"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bitsandbytes, and not in nf4"),
        ({**OF_NF4, "bnb_4bit_quant_type": "fp4"}, "bitsandbytes, and not in nf4"),
    ],
)
def test_forms_that_are_not_read(quantization: dict, words: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": quantization}))
    with pytest.raises(mebp.Error) as caught:
        mebp.export(tmp_path, tmp_path / "out" / "model.onnx")
    assert str(caught.value) == (
        f"{tmp_path}: already quantised ({words}); export the full-precision model instead, mebpc quantises it"
    )


def test_a_folder_in_fp8_is_exported(tmp_path: Path) -> None:
    folder = models.save(models.build("llama", hidden_size=128, intermediate_size=256).bfloat16(), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    name = "model.layers.0.mlp.down_proj"
    tensors[f"{name}.weight"] = tensors[f"{name}.weight"].float().to(torch.float8_e4m3fn)
    tensors[f"{name}.weight_scale_inv"] = torch.full((1, 2), 0.3)
    expected = (tensors[f"{name}.weight"].float() * 0.3).bfloat16()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": OF_FP8}))
    mebp.export(folder, tmp_path / "out" / "model.onnx", seq_len=16)
    found = load_file(tmp_path / "out" / "dequantised.safetensors")
    assert torch.equal(found[f"{name}.weight"], expected)
