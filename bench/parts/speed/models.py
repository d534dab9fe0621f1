# SPDX-License-Identifier: Apache-2.0
"""The models whose steps are timed: as transformers loads them, and as bundles."""

import json
from dataclasses import dataclass
from pathlib import Path

from parts.memory.others import save_model
from parts.shapes import HYBRIDS, LARGE, SHAPES, SMALL

import mebp

PACKAGED = {"SmolLM2-135M": "packaged:smollm2"}
MODELS = (*PACKAGED, "Qwen2.5-0.5B")
DEVICE_MODELS = (*MODELS, *SMALL)
LARGER = ("Qwen2.5-1.5B", "Qwen2.5-3B")  # where memory does not hold all of PEFT's settings at once, by --settings
PROFILED_MODELS = (*MODELS, *LARGER, "Llama-3-8B", *HYBRIDS)  # without torch


@dataclass(frozen=True)
class Model:
    name: str
    config: dict  # its config.json
    weights: Path | None  # a transformers folder, in bf16
    exported: Path  # its ONNX file

    @property
    def is_random(self) -> bool:
        """Its graph has a shape and no weights."""
        return self.name not in PACKAGED

    def compile(self, bundle: Path, tokens: int, **others: object) -> Path:
        """`others`: options of mebp.compile, beside or instead of the usual ones."""
        random = {"random_weights": 0} if self.is_random else {}
        options = {"seq_len": tokens, "precision": "bf16", "weights": "int4", "optimizer": "adamw"}
        mebp.compile(self.exported, bundle, **options | random | others)
        return bundle


def prepare(name: str, folder: Path, longest: int, weights: bool = True) -> Model:
    """Saves what `folder` lacks, for sequences up to `longest`; weights are random where only a shape is public.
    `weights`: torch runs it, too."""
    saved, exported = folder / name / "bf16", folder / name / f"onnx-{longest}" / "model.onnx"
    config, shape = folder / name / "config", (SHAPES | LARGE | SMALL | HYBRIDS).get(name)
    if shape:
        shape.write_config(config)
    if (weights or not shape) and not (saved / "model.safetensors").exists():
        save_model(shape, config, saved) if shape else _save_in_bf16(name, saved)
    if not exported.exists():
        mebp.export(PACKAGED.get(name, config), exported, seq_len=longest, shape_only=bool(shape))
    read = config if shape else saved
    return Model(name, json.loads((read / "config.json").read_text()), saved if weights else None, exported)


def _save_in_bf16(name: str, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, logging

    from mebp.exporter.packaged import unpack

    logging.disable_progress_bar()
    AutoModelForCausalLM.from_pretrained(
        unpack(PACKAGED[name]), dtype=torch.bfloat16, trust_remote_code=False, use_safetensors=True
    ).save_pretrained(folder)
