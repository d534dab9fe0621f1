# SPDX-License-Identifier: Apache-2.0
"""What an optimizer's state adds to the peak, in memory and in a file; bench/memory.py runs it."""

from dataclasses import dataclass
from pathlib import Path

from parts.process_memory import Memory, watch
from parts.runs import command, last_step


@dataclass(frozen=True)
class OptimizerCell:
    """Bytes; `sampled` after every kernel call, `polled` from outside, `to_file` in a step."""

    shape: str
    length: int
    optimizer: str
    in_file: str
    planned: int
    sampled: int
    polled: Memory
    to_file: int


def measure_optimizers(name: str, length: int, bundle: Path, tokens: Path, folder: Path) -> list[OptimizerCell]:
    """One plan under every optimizer; `folder` is where mebp-run may make its file."""
    checkpoints = ["--spill", str(folder)]
    state = [*checkpoints, "--spill-optimizer"]
    runs = [
        ("sgd", "nothing", []),
        ("sgd", "checkpoints", checkpoints),
        ("adamw", "nothing", []),
        ("adamw", "checkpoints", checkpoints),
        ("adamw", "checkpoints, adapter and state", state),
    ]
    cells = []
    for optimizer, in_file, options in runs:
        found = sampled(command(bundle, tokens, *options, optimizer=optimizer))
        cells.append(OptimizerCell(shape=name, length=length, optimizer=optimizer, in_file=in_file, **found))
    return cells


def sampled(call: list[str]) -> dict[str, int | Memory]:
    """What mebp-run takes, looked at after every kernel: the last fields of a cell."""
    polled, output = watch([*call, "--sample-memory"])
    end = last_step(output)
    return {
        "planned": end["planned_bytes"],
        "sampled": end["peak_bytes"],
        "polled": polled,
        "to_file": end["written_bytes"],
    }
