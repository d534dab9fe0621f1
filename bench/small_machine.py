# SPDX-License-Identifier: Apache-2.0
"""Trains on a machine that is as small as a control group makes it, its page cache counted in.

    sudo .venv/bin/python bench/small_machine.py [--shape Qwen2.5-0.5B] [--limit 128MB] [--resident-limit 48MiB]
        [--limited] [--folder DIR] [--markdown docs/memory-measured.md]

A shape with random int4 weights, bf16 activations, LoRA r=8 on all linear layers, SGD, 256 tokens. A large one has its
checkpoints and its adapter in a file (--spill all). The bundle's pages are dropped from memory first, so that the group
pays for all that it reads. --limited leaves out the run whose weights are left to the system.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from parts.folders import there
from parts.memory.report import megabytes
from parts.memory_group import Usage, memory_group
from parts.page_cache import drop_cached
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.runs import command, compile_random, export, last_step, write_tokens
from parts.shapes import LARGE, SHAPES

import mebp
from mebp.session_options import byte_size

LENGTH = 256
MARK = "bench/small_machine.py"
HEADER = [
    "| shape | weights | group's limit | group's maximum "
    "| times at the limit | major faults | MB read | s a step | loss |",
    "| --- | --- |" + " ---: |" * 7,
]


def compile_shape(name: str, folder: Path) -> tuple[Path, Path]:
    """A bundle, and rows of tokens for it."""
    bundle = folder / "small.mebp"
    budget = f"{(SHAPES | LARGE)[name].budgets[LENGTH]}MB"
    spill = "all" if name in LARGE else None
    compile_random(export(name, folder, LENGTH), bundle, LENGTH, memory_budget=budget, spill=spill)
    return bundle, write_tokens(folder / "tokens.npy", LENGTH, vocabulary=(SHAPES | LARGE)[name].vocabulary)


def train(limit: int, bundle: Path, tokens: Path, *options: str) -> Usage:
    drop_cached(bundle)
    with memory_group(limit) as group:
        return group.run(command(bundle, tokens, *options))


def row(name: str, weights: str, limit: int, usage: Usage) -> str:
    last = last_step(usage.output)
    return (
        f"| {name} | {weights} | {megabytes(limit)} | {megabytes(usage.highest)} | {usage.at_limit:,} "
        f"| {usage.faults:,} | {megabytes(usage.read)} | {last['seconds']:.1f} | {last['loss']:.6f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES | LARGE, default="Qwen2.5-0.5B")
    parser.add_argument("--limit", default="128MB", help="of the group: anonymous memory and page cache (128MB)")
    parser.add_argument("--resident-limit", default="48MiB", help="what the second run may hold of the weights (48MiB)")
    parser.add_argument("--limited", action="store_true", help="only with --resident-limit")
    parser.add_argument("--folder", type=there, help="where the bundle lies while it runs, on a disk; a temporary one")
    parser.add_argument("--markdown", type=Path, help="the page that takes the table; other rows stay")
    arguments = parser.parse_args()

    lines = [*HEADER]
    try:
        limit = byte_size("--limit", arguments.limit)
        with memory_group(limit):
            pass  # refused before the work, and not after it
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            bundle, tokens = compile_shape(arguments.shape, Path(folder))
            held = ["--resident-limit", arguments.resident_limit]
            runs = {" ".join(held): held} if arguments.limited else {"left to the system": [], " ".join(held): held}
            for weights, options in runs.items():
                lines.append(row(arguments.shape, weights, limit, train(limit, bundle, tokens, *options)))
        if arguments.markdown:
            old = read_between_marks(arguments.markdown, MARK)
            write_between_marks(arguments.markdown, MARK, merge_tables(old, lines, 3))
    except (mebp.Error, OSError, ValueError) as error:
        sys.stderr.write(f"small_machine.py: {error}\n")
        sys.exit(2)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
