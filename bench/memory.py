# SPDX-License-Identifier: Apache-2.0
"""Peak memory of a training step: the plan, what the system counts, and other systems beside it.

    .venv/bin/python bench/memory.py [--shapes Qwen2.5-0.5B ...] [--lengths 256 1024] [--no-peft]
        [--markdown docs/memory.md] [--plot docs/images/memory.png]

Qwen2.5's shapes with random int4 weights, bf16 activations, LoRA r=8 on all linear layers, SGD, batch 1. Every system
runs in a process of its own. The weights need a few GB of disk, in --folder, for as long as it runs.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from memory_report import draw, peft_table, table
from memory_shapes import LENGTHS, SHAPES, VOCABULARY, Shape
from pages import write_between_marks
from process_memory import Memory, watch

import mebp
from mebp.tools import find_tool

STEPS = 2


@dataclass(frozen=True)
class Cell:
    """A shape at a length. Bytes and seconds; `sampled` after every kernel call, `polled` from outside."""

    shape: str
    length: int
    mesp: float  # MB
    budget: int  # MB
    planned: int
    sampled: int
    polled: Memory
    seconds: float
    fastest_planned: int  # of the plan without a budget
    fastest_seconds: float
    ratio: float  # of times, from steps in turns


@dataclass(frozen=True)
class Peft:
    shape: str
    length: int
    polled: Memory
    seconds: float


def command(bundle: Path, tokens: Path, steps: int) -> list[str]:
    arguments = ["--tokens", str(tokens), "--steps", str(steps), "--optimizer", "sgd", "--json"]
    return [find_tool("mebp-run"), str(bundle), *arguments]


def time_step(bundle: Path, tokens: Path) -> dict:
    """mebp-run's lines of one step and of its end; its pages are in the page cache since they were written."""
    output = subprocess.run(command(bundle, tokens, 1), check=True, stdout=subprocess.PIPE, text=True).stdout
    step, end = map(json.loads, output.splitlines())
    return step | end


def measure(name: str, length: int, exported: Path, folder: Path, rounds: int) -> Cell:
    shape = SHAPES[name]
    budget = shape.budgets[length]
    fitted, fastest, tokens = folder / "fitted.mebp", folder / "fastest.mebp", folder / "tokens.npy"
    common = {"seq_len": length, "optimizer": "sgd", "random_weights": 0}
    mebp.compile(exported, fitted, memory_budget=f"{budget}MB", **common)
    mebp.compile(exported, fastest, **common)
    np.save(tokens, np.random.default_rng(0).integers(0, VOCABULARY, (STEPS, length), dtype=np.int32))

    polled, output = watch([*command(fitted, tokens, STEPS), "--sample-memory"])
    end = json.loads(output.splitlines()[-1])
    # In turns, because a shared machine's speed changes from minute to minute.
    pairs = [(time_step(fitted, tokens), time_step(fastest, tokens)) for _ in range(rounds)]
    shutil.rmtree(fitted)
    shutil.rmtree(fastest)
    return Cell(
        shape=name,
        length=length,
        mesp=shape.mesp[length],
        budget=budget,
        planned=end["planned_bytes"],
        sampled=end["peak_bytes"],
        polled=polled,
        seconds=min(ours["seconds"] for ours, _ in pairs),
        fastest_planned=pairs[0][1]["planned_bytes"],
        fastest_seconds=min(other["seconds"] for _, other in pairs),
        ratio=statistics.median(ours["seconds"] / other["seconds"] for ours, other in pairs),
    )


def measure_peft(name: str, lengths: list[int], config: Path, folder: Path) -> list[Peft]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, logging

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(config), dtype=torch.bfloat16)
    model.save_pretrained(folder)
    del model
    script = Path(__file__).with_name("memory_peft.py")
    results = []
    for length in lengths:
        polled, output = watch([sys.executable, str(script), str(folder), str(length), str(STEPS)], interval=0.05)
        results.append(Peft(name, length, polled, float(output)))
    return results


def export(shape: Shape, folder: Path, length: int) -> tuple[Path, Path]:
    config, exported = folder / "config", folder / "onnx" / "model.onnx"
    shape.write_config(config)
    mebp.export(config, exported, seq_len=length, shape_only=True)
    return config, exported


def publish(cells: list[Cell], peft: list[Peft], arguments: argparse.Namespace) -> None:
    """After every cell: a run of all shapes takes long, and may be stopped."""
    if arguments.markdown:
        write_between_marks(arguments.markdown, "bench/memory.py", [*table(cells), "", *peft_table(peft)])
    if arguments.plot:
        draw(cells, peft, arguments.plot)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--lengths", nargs="+", type=int, choices=LENGTHS, default=list(LENGTHS))
    parser.add_argument("--rounds", type=int, default=3, help="pairs of runs that the times come from")
    parser.add_argument("--no-peft", action="store_true", help="leave out PEFT, which runs the first shape only")
    parser.add_argument("--folder", type=Path, help="where bundles lie while it runs; a temporary one")
    parser.add_argument("--markdown", type=Path, help="the page that takes the tables")
    parser.add_argument("--plot", type=Path, help="the picture to write")
    arguments = parser.parse_args()

    cells, peft = [], []
    for name in arguments.shapes:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            config, exported = export(SHAPES[name], Path(folder), max(arguments.lengths))
            for length in arguments.lengths:
                cells.append(measure(name, length, exported, Path(folder), arguments.rounds))
                print(table(cells)[-1], flush=True)
                publish(cells, peft, arguments)
            if name == arguments.shapes[0] and not arguments.no_peft:
                peft = measure_peft(name, arguments.lengths, config, Path(folder) / "peft")
                print(*peft_table(peft)[2:], sep="\n", flush=True)
                publish(cells, peft, arguments)


if __name__ == "__main__":
    main()
