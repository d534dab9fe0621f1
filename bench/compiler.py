# SPDX-License-Identifier: Apache-2.0
"""What `mebp export` and `mebpc` cost by the size of the model: seconds, and anonymous memory as the system counts it.

    .venv/bin/python bench/compiler.py [--models SmolLM2-135M Qwen2.5-0.5B ...] [--markdown docs/measurements.md]

SmolLM2 has its weights, read as bf16; Qwen2.5's shapes are exported without any, and drawn at random. Weights become
int4, activations bf16, sequences 1,024 tokens. Each command is a process of its own, and runs once.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from parts.folders import there
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.process_memory import watch
from parts.shapes import SHAPES

import mebp
from mebp.exporter.packaged import unpack
from mebp.tools import find_tool

TOKENS = 1024
REAL = "SmolLM2-135M"
BUDGETS = {REAL: 60} | {name: shape.budgets[TOKENS] for name, shape in SHAPES.items()}  # MB, with SGD
TABLE = "bench/compiler.py"
HEADER = [
    "| model | export | plan | plan within a budget | bundle | its weights, MB |",
    "| --- | ---: | ---: | ---: | ---: | ---: |",
]


def cost(command: list[str]) -> str:
    """Seconds and MB of a command. Raises RuntimeError where it fails."""
    begin = time.perf_counter()
    memory, _ = watch(command)
    return f"{time.perf_counter() - begin:.1f} s, {memory.written / 1e6:.0f} MB"


def row(name: str, folder: Path) -> Iterator[str]:
    """The cells of the model's row."""
    exported, bundle = folder / "onnx" / "model.onnx", folder / "model.mebp"
    source, shape_only, weights = folder / "config", ["--shape-only"], ["--random-weights", "1"]
    if name == REAL:
        source, shape_only, weights = unpack("packaged:smollm2"), [], []
    else:
        SHAPES[name].write_config(source)
    compile = [find_tool("mebpc"), str(exported), "--precision", "bf16", "--optimizer", "sgd"]
    yield name
    export = [sys.executable, "-m", "mebp", "export", str(source), "-o", str(exported)]
    yield cost([*export, "--seq-len", str(TOKENS), *shape_only])
    yield cost([*compile, "--plan-only"])
    yield cost([*compile, "--plan-only", "--memory-budget", f"{BUDGETS[name]}MB"])
    yield cost([*compile, "-o", str(bundle), *weights])
    yield f"{(bundle / 'weights.bin').stat().st_size / 1e6:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=BUDGETS, default=list(BUDGETS))
    parser.add_argument("--folder", type=there, help="where models and bundles lie, up to 3 GB; a temporary one")
    parser.add_argument("--markdown", type=Path, help="the page that takes the table; rows not measured again stay")
    arguments = parser.parse_args()

    try:
        table = read_between_marks(arguments.markdown, TABLE) if arguments.markdown else []
        for name in arguments.models:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                new = [*HEADER, f"| {' | '.join(row(name, Path(folder)))} |"]
            print(new[-1], flush=True)
            table = merge_tables(table, new, keys=1)
            if arguments.markdown:
                write_between_marks(arguments.markdown, TABLE, table)
    except (mebp.Error, RuntimeError, ValueError) as error:
        sys.stderr.write(f"compiler.py: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
