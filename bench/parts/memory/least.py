# SPDX-License-Identifier: Apache-2.0
"""What a step with AdamW is made in where all that can be is in a file; bench/memory.py runs it."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from parts.memory.optimizers import sampled
from parts.process_memory import Memory, watch
from parts.runs import command, compile_random, last_step

OPTIMIZER, LENGTH = "adamw", 256
BUDGETS = {"Qwen2.5-0.5B": (12, 5), "Qwen2.5-1.5B": (7,), "Qwen2.5-3B": (9,)}  # MB


@dataclass(frozen=True)
class LeastCell:
    """Bytes and seconds; `sampled` after every kernel call, `polled` from outside, `to_file` in a step."""

    shape: str
    length: int
    budget: int  # MB
    planned: int
    sampled: int
    polled: Memory
    to_file: int
    seconds: float


def measure_least(name: str, budget: int, exported: Path, tokens: Path, folder: Path) -> LeastCell:
    """`folder` is where the bundle, and mebp-run's file, may be."""
    bundle = folder / "least.mebp"
    compile_random(exported, bundle, LENGTH, optimizer=OPTIMIZER, memory_budget=f"{budget}MB", spill="all")
    call = command(bundle, tokens, "--spill", str(folder), "--spill-optimizer", optimizer=OPTIMIZER)
    found = sampled(call)
    seconds = last_step(watch(call)[1])["seconds"]
    shutil.rmtree(bundle)
    return LeastCell(shape=name, length=LENGTH, budget=budget, seconds=seconds, **found)
