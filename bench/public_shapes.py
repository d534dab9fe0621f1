# SPDX-License-Identifier: Apache-2.0
"""What models of public shapes need that are not plain Llamas: by plan, and a mixture of experts in one real step.

    .venv/bin/python bench/public_shapes.py [--shapes Qwen3-30B-A3B ...] [--lengths 256 4096]
        [--markdown docs/memory-measured.md]
    .venv/bin/python bench/public_shapes.py --step [--layers 4] [--lengths 8 256]
        [--markdown docs/memory-measured.md]

Int4 weights, bf16 activations, LoRA r=8 on all linear layers (attention and what every token goes through), AdamW,
batch 1. A plan needs no weights. A step is made with random ones, of the first shape cut to a few layers, with none of
its weights in memory before: afterwards, those pages of the file that are in memory have been read.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

from parts.folders import there
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.public_shapes import SHAPES
from parts.runs import command, last_step, write_tokens

import mebp
from mebp.inspect import inspect
from mebp.tools import find_tool, run_tool

# Kinds of models that differ in what a plan has; the first is the one of the step.
PLANNED = (
    "Qwen3-30B-A3B",
    "DeepSeek-V2-Lite",
    "Mixtral-8x7B",
    "gpt-oss-20b",
    "GLM-4-9B",
    "Gemma-2-9B",
    "Gemma-4-31B",
    "Command-R-35B",
    "Llama-3-8B",
)
PLANS, STEPS = "bench/public_shapes.py: plans", "bench/public_shapes.py: steps"
OPTIMIZER = "adamw"
EXPORTED = 1280  # tokens at most: the graph then has windows of 1,024, and mebpc rebinds its length


def export(name: str, folder: Path, length: int, **fields: object) -> Path:
    """The shape's graph, without weights."""
    config = folder / name
    config.mkdir(parents=True)
    (config / "config.json").write_text(json.dumps({**SHAPES[name], **fields}))
    exported = folder / f"{name}-onnx" / "model.onnx"
    mebp.export(config, exported, seq_len=min(length, EXPORTED), shape_only=True)
    return exported


def plan(exported: Path, length: int, *options: str) -> dict:
    output = exported.with_name("plan.json")
    call = [find_tool("mebpc"), str(exported), "--seq-len", str(length), *options]
    run_tool([*call, "--plan-only", "--plan-json", str(output)])
    return json.loads(output.read_text())


def least(exported: Path, length: int) -> int:
    """The lowest peak that mebpc plans in memory, in bytes: chunks of 64 tokens, and checkpoints in a file."""
    return plan(exported, length, "--chunk-size", "64", "--spill", "checkpoints")["peak_bytes"]


def row(*cells: str | int) -> str:
    """Of texts, and of bytes as MB."""
    return "| " + " | ".join(each if isinstance(each, str) else f"{each / 1e6:,.1f} MB" for each in cells) + " |"


def plans(names: list[str], lengths: list[int]) -> list[str]:
    """Markdown, a line each."""
    lines = ["| shape | tokens | weights, mapped | peak | in chunks of 64, checkpoints in a file |"]
    lines.append("| --- |" + " ---: |" * 4)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            exported = export(name, Path(folder), max(lengths))
            for length in lengths:
                found = plan(exported, length)
                numbers = (found["weights_bytes"], found["peak_bytes"], least(exported, length))
                lines.append(row(name, f"{length:,}", *numbers))
                print(lines[-1], flush=True)
    return lines


def resident(file: Path) -> int:
    """How many bytes of the file the page cache has."""
    return int(subprocess.run(["fincore", "-nb", "-o", "RES", file], capture_output=True, check=True, text=True).stdout)


def steps(name: str, layers: int, lengths: list[int], folder: Path) -> list[str]:
    """Markdown, a line each. The bundle stays in `folder`, and is used again."""
    lines = ["| shape | layers | tokens | peak | plan | weights read | of |", "| --- |" + " ---: |" * 6]
    bundle = folder / f"{name}-{layers}.mebp"
    if not bundle.exists():
        exported = export(name, folder, max(lengths), num_hidden_layers=layers)
        mebp.compile(exported, bundle, seq_len=max(lengths), optimizer=OPTIMIZER, random_weights=0)
    weights = bundle / "weights.bin"
    for length in lengths:
        tokens = write_tokens(folder / "tokens.npy", length, rows=1)
        with weights.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        before = resident(weights)
        found = last_step(run_tool(command(bundle, tokens, "--sample-memory", steps=1, optimizer=OPTIMIZER)))
        read = resident(weights) - before
        planned = inspect(bundle)["plan"]["peak_bytes"]
        cells = (found["peak_bytes"], planned, read, weights.stat().st_size)
        lines.append(row(name, str(layers), f"{length:,}", *cells))
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=PLANNED, metavar="SHAPE")
    parser.add_argument("--lengths", nargs="+", type=int)
    parser.add_argument("--step", action="store_true", help="make a step instead of plans")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--folder", type=there, help="where the bundle of a step is kept (a temporary folder)")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="the page that takes the table; other rows stay")
    arguments = parser.parse_args()
    if arguments.step:
        with tempfile.TemporaryDirectory() as scratch:
            folder = arguments.folder or Path(scratch)
            table = steps(arguments.shapes[0], arguments.layers, arguments.lengths or [8, 256], folder)
    else:
        table = plans(arguments.shapes, arguments.lengths or [256, 4096])
    if arguments.markdown:
        mark, keys = (STEPS, 3) if arguments.step else (PLANS, 2)
        write_between_marks(
            arguments.markdown, mark, merge_tables(read_between_marks(arguments.markdown, mark), table, keys)
        )


if __name__ == "__main__":
    main()
