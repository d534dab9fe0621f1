# SPDX-License-Identifier: Apache-2.0
"""Odd adapters in folders, PEFT's and MLX-LM's: their settings, their tensors, and the base model's config.json."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mebp.adapters.conversion import convert_adapter
from mebp.errors import Error
from support.mutants import hold
from support.odd_adapters import mutate_object, mutate_tensors

PEFT = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "base_model_name_or_path": "base",
    "r": 2,
    "lora_alpha": 4,
    "lora_dropout": 0.0,
    "bias": "none",
    "target_modules": ["q_proj", "up_proj"],
    "exclude_modules": None,
    "layers_pattern": None,
    "layers_to_transform": None,
    "rank_pattern": {},
    "alpha_pattern": {"up_proj": 8},
    "init_lora_weights": True,
    "use_rslora": False,
    "use_dora": False,
    "fan_in_fan_out": False,
    "modules_to_save": None,
    "alora_invocation_tokens": None,
    "inference_mode": True,
}
MLX = {
    "fine_tune_type": "lora",
    "model": "base",
    "num_layers": -1,
    "lora_parameters": {"rank": 2, "scale": 2.0, "dropout": 0.0, "keys": ["self_attn.q_proj"]},
}
BASE = {"model_type": "llama", "num_attention_heads": 2, "num_key_value_heads": 2, "tie_word_embeddings": False}
LAYERS = {"model.layers.0.self_attn.q_proj": 32, "model.layers.0.mlp.up_proj": 64}


def tensors_of(form: str) -> tuple[dict[str, dict], bytes]:
    """A header of safetensors, and its data."""
    header, data = {}, b""
    for layer, rows in LAYERS.items():
        a, b = np.full((2, 32), 0.5, np.float32), np.full((rows, 2), 0.25, np.float32)
        named = {f"base_model.model.{layer}.lora_A.weight": a, f"base_model.model.{layer}.lora_B.weight": b}
        if form == "mlx":
            named = {f"{layer}.lora_a": a.T, f"{layer}.lora_b": b.T}
        for name, values in named.items():
            ends = [len(data), len(data) + values.nbytes]
            header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": ends}
            data += values.tobytes()
    return {"__metadata__": {"format": "pt"}, **header}, data


def writer(folder: Path, form: str) -> Callable[[random.Random], str]:
    settings, tensors = (PEFT, "adapter_model.safetensors") if form == "peft" else (MLX, "adapters.safetensors")

    def make(choose: random.Random) -> str:
        odd, of_base = folder / "odd", folder / "base"
        for each in (odd, of_base):
            each.mkdir(exist_ok=True)
        which = choose.choice(["settings", "settings", "tensors", "both", "base"])
        text, said = (json.dumps(settings), "")
        if which in ("settings", "both"):
            text, said = mutate_object(settings, choose)
        (odd / "adapter_config.json").write_text(text, errors="surrogatepass")
        content, also = mutate_tensors(*tensors_of(form), choose if which in ("tensors", "both") else random.Random(0))
        (odd / tensors).write_bytes(content)
        text, of = mutate_object(BASE, choose) if which == "base" else (json.dumps(BASE), "")
        (of_base / "config.json").write_text(text)
        return f"{which}: {said} / {also} / {of}"

    return make


@pytest.mark.parametrize("form", ["peft", "mlx"])
def test_conversions(tmp_path, monkeypatch, form):
    out = tmp_path / "out"

    monkeypatch.chdir(tmp_path)

    monkeypatch.setattr("mebp.files.sync", lambda path: None)

    def read(choose: random.Random) -> None:
        shutil.rmtree(out, ignore_errors=True)
        out.unlink(missing_ok=True)
        try:
            of_base = tmp_path / "base" if choose.random() < 0.5 else None
            convert_adapter(tmp_path / "odd", out, choose.choice(["peft", "mlx", "gguf"]), of_base)
        except Error:
            assert not out.exists()
            raise
        convert_adapter(out, tmp_path / "again", choose.choice(["peft", "mlx"]), tmp_path / "base")
        shutil.rmtree(tmp_path / "again")

    hold(writer(tmp_path, form), read, ["odd", "base", "out"])
