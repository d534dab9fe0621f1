# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M with PrivateLoRA on q, k and v: in one process, and in two halves."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import mebp
from mebp.tools import find_tool

MODEL = "packaged:smollm2"


@dataclass(frozen=True)
class Bundles:
    whole: Path
    edge: Path
    cloud: Path


def export(folder: Path, seq_len: int) -> Path:
    """Once: what is there is taken as it is."""
    model = folder / "model.onnx"
    if not model.exists():
        mebp.export(MODEL, model, seq_len=seq_len)
    return model


def compile_both(model: Path, precision: str, kept: tuple[int, int], *options: str) -> Bundles:
    """The same module twice, beside `model`; K and N of `kept` first and last layers are the device's."""
    name = model.parent / f"{precision}-{kept[0]}-{kept[1]}.mebp"
    halves = [f"--device-first={kept[0]}", f"--device-last={kept[1]}", "--split=private-lora"]
    for more in ([], halves):
        command = [find_tool("mebpc"), model, "-o", name, f"--precision={precision}", "--adapter=private-lora"]
        subprocess.run([*map(str, command), *options, *more], check=True, stdout=subprocess.DEVNULL)
    return Bundles(name, name.with_suffix(".edge.mebp"), name.with_suffix(".cloud.mebp"))
