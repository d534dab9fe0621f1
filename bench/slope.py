# SPDX-License-Identifier: Apache-2.0
"""What a token of a sequence costs in memory with checkpoints in a file: planned, measured, and beside its bound.

    .venv/bin/python bench/slope.py [--shapes Qwen2.5-0.5B ...] [--lengths 512 1024 2048 4096]
        [--measured-lengths 512 1024] [--chunk-size 128]
        [--markdown docs/memory-measured.md] [--plot docs/images/slope.png]

Qwen2.5's shapes with random int4 weights, bf16 activations, LoRA r=8 on all linear layers, SGD, batch 1. Chunks are of
one size, so that nothing but the length changes. Planning needs no weights; measuring needs a few GB of disk.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from parts.folders import there
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.runs import command, compile_random, export, last_step, write_tokens
from parts.shapes import SHAPES
from parts.slope_report import draw, peaks_table, slopes_table

import mebp
from mebp.tools import find_tool, run_tool

LENGTHS = (512, 1024, 2048, 4096)
MEASURED = {"Qwen2.5-0.5B": 4096}  # the longest; a step of the larger shapes takes minutes at 2,048 tokens
MEASURED_ELSE = 2048
PEAKS, SLOPES = "bench/slope.py: peaks", "bench/slope.py: slopes"


def plan(exported: Path, length: int, chunk: int, folder: Path) -> int:
    """The planned peak in bytes."""
    output = folder / "plan.json"
    options = ["--seq-len", str(length), "--chunk-size", str(chunk), "--optimizer", "sgd", "--spill", "checkpoints"]
    run_tool([find_tool("mebpc"), str(exported), *options, "--plan-only", "--plan-json", str(output)])
    return json.loads(output.read_text())["peak_bytes"]


def measure(exported: Path, length: int, chunk: int, folder: Path) -> int:
    """The highest that one step looks like after any kernel call, in bytes."""
    bundle, tokens = folder / "slope.mebp", write_tokens(folder / "tokens.npy", length, rows=1)
    compile_random(exported, bundle, length, chunk_size=chunk, spill="checkpoints")
    options = ["--spill", str(folder), "--sample-memory"]
    output = run_tool(command(bundle, tokens, *options, steps=1))
    shutil.rmtree(bundle)
    return last_step(output)["peak_bytes"]


def measured_lengths(name: str, arguments: argparse.Namespace) -> list[int]:
    if arguments.measured_lengths is not None:
        return arguments.measured_lengths
    return [length for length in arguments.lengths if length <= MEASURED.get(name, MEASURED_ELSE)]


def measure_all(arguments: argparse.Namespace) -> list[str]:
    """The table of peaks, which is shown and published row by row."""
    page, chunk = arguments.markdown, arguments.chunk_size
    peaks = read_between_marks(page, PEAKS) if page else []
    for name in arguments.shapes:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            exported = export(name, Path(folder), max(arguments.lengths))
            for length in arguments.lengths:
                planned, measured = plan(exported, length, chunk, Path(folder)), None
                if length in measured_lengths(name, arguments):
                    measured = measure(exported, length, chunk, Path(folder))
                new = peaks_table([(name, length, planned, measured)])
                print(new[-1], flush=True)
                peaks = merge_tables(peaks, new, keys=2)
                if page:
                    write_between_marks(page, PEAKS, peaks)
        if page:
            write_between_marks(page, SLOPES, slopes_table(peaks))
        if arguments.plot:
            draw(peaks, arguments.plot)
    return peaks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--lengths", nargs="+", type=int, default=list(LENGTHS), help="tokens of a sequence")
    parser.add_argument("--measured-lengths", nargs="*", type=int, help="of them, those to train a step at")
    parser.add_argument("--chunk-size", type=int, default=128, help="positions of a chunk along the sequence (128)")
    parser.add_argument("--folder", type=there, help="where bundles and checkpoints lie, on a disk; a temporary one")
    parser.add_argument("--markdown", type=Path, help="the page that takes the tables; rows not measured again stay")
    parser.add_argument("--plot", type=Path, help="the picture to write, from the tables")
    arguments = parser.parse_args()

    try:
        peaks = measure_all(arguments)
    except (mebp.Error, ValueError) as error:
        sys.stderr.write(f"slope.py: {error}\n")
        sys.exit(2)
    print(*slopes_table(peaks), sep="\n")


if __name__ == "__main__":
    main()
