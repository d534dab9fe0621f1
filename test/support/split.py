# SPDX-License-Identifier: Apache-2.0
"""A tiny model in one process, and in two halves."""

import subprocess

import mebp
from mebp.tools import find_tool
from support import models
from support.commands import TIMEOUT

SEQUENCE, BATCH, LAYERS = 40, 2, 4


def compile_both(folder, precision: str = "f32", kept: tuple[int, int] = (0, 0), *more: str):
    """The same module in one process, and in two halves."""
    model = folder / "model.onnx"
    if not model.exists():
        mebp.export(models.build("llama", num_hidden_layers=LAYERS), model, seq_len=SEQUENCE, batch=BATCH)
    options = ["--adapter=private-lora", "--rank-down=5", "--rank-up=7", f"--precision={precision}", "--threads=1",
               "--generate-len=48", *more]  # fmt: skip
    name = folder / f"{precision}-{kept[0]}-{kept[1]}.mebp"
    halves = ["--split=private-lora", f"--device-first={kept[0]}", f"--device-last={kept[1]}"]
    for extra in ([], halves):
        subprocess.run([find_tool("mebpc"), model, "-o", name, *options, *extra], check=True, timeout=TIMEOUT)
    return name, name.with_suffix(".edge.mebp"), name.with_suffix(".cloud.mebp")
