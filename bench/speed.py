# SPDX-License-Identifier: Apache-2.0
"""Seconds of a training step beside PEFT and torch, all in turns, and beside what the machine could do.

    .venv/bin/python bench/speed.py [--parts peft mezo kernels opening rates] [--settings PEFT ...]
        [--models SmolLM2-135M ...] [--tokens 256 1024] [--rounds 8] [--seconds 60] [--threads N] [--folder DIR]
        [--json FILE] [--markdown docs/speed.md docs/speed-tables.md] [--plot docs/images/speed.png]
    .venv/bin/python bench/speed.py --device cpu|mlx|mlx-cpu [--models ...] [--tokens ...] [--markdown docs/devices.md]
    .venv/bin/python bench/speed.py --from FILE ... [--markdown PAGE ...] [--plot PICTURE]

bf16, int4 weights here, LoRA r=8 on all linear layers, AdamW, batch 1. Each contender is a process that loads once and
then makes its steps in turn with the others. MEBP_KERNELS and ONEDNN_MAX_CPU_ISA hold both sides to fewer instructions,
with ATEN_CPU_CAPABILITY and MKL_ENABLE_INSTRUCTIONS where torch has no bf16 then and takes part in f32.
With --device a step there is compared with mlx-lm's LoRA (pip install mlx-lm) and with PEFT on the device that torch
has here, with the memory of each; what is not installed is left out, in a line.
The part `rates` needs the programs peak and kernel_bench: cmake -B build -DMEBP_BUILD_BENCH=ON && cmake --build build.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from parts.folders import there
from parts.pages import find_page, merge_tables, read_between_marks, write_between_marks
from parts.shapes import LENGTHS
from parts.speed.cell import LEAST_ROUNDS, MEBP, PARTS, Run, measure_cell, peft_settings, say
from parts.speed.machine import available_cores, describe, multiplies_bf16
from parts.speed.models import DEVICE_MODELS, LARGER, MODELS, prepare
from parts.speed.on_device import describe as describe_device
from parts.speed.on_device import measure_on_device, missing
from parts.speed.plot import draw
from parts.speed.rates import find_bench
from parts.speed.report import DEVICE_TABLES, TABLES, TOGETHER

import mebp


def mark(name: str) -> str:
    return f"bench/speed.py: {name}"


def tables_of(results: dict) -> dict:
    return DEVICE_TABLES if "device" in results else TABLES


def publish(results: dict, pages: list[Path], plot: Path | None) -> None:
    """Writes each table into the page that has its marks, where rows stay until measured again; and the picture."""
    steps: list[str] = []
    for name, (make, keys) in tables_of(results).items():
        new = make(results)
        if pages:
            page = find_page(pages, mark(name))
            new = merge_tables(read_between_marks(page, mark(name)), new, keys, TOGETHER.get(name, 0))
            write_between_marks(page, mark(name), new)
        steps = new if name == "steps" else steps
    if plot:
        draw(steps, plot)


def show(results: dict) -> None:
    for name, (make, _) in tables_of(results).items():
        header, rule, *rows = make(results)
        if rows:
            print(f"\n{name}\n", header, rule, *rows, sep="\n", flush=True)


def measure_all(arguments: argparse.Namespace) -> dict:
    """Everything is written again after each model and length: a whole run takes long, and may be stopped."""
    results = {"device": describe_device(arguments.device)} if arguments.device else {"machine": describe()}
    has_bf16 = multiplies_bf16(results["machine"]) if "machine" in results else True
    peft_settings(has_bf16, arguments.settings)  # refused before measuring, like what is not built
    for program in ("peak", "kernel_bench") if "rates" in arguments.parts else ():
        find_bench(program)
    run = Run(arguments.parts, arguments.threads, arguments.rounds, arguments.seconds, has_bf16, arguments.settings)
    results["cells"] = []
    for line in missing(results["device"]) if arguments.device else ():
        say(line)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        for name in arguments.models:
            model = prepare(name, arguments.folder or Path(scratch), max(arguments.tokens))
            for tokens in arguments.tokens:
                with tempfile.TemporaryDirectory(dir=scratch) as folder:
                    if arguments.device:
                        cell = measure_on_device(model, tokens, run, results["device"], Path(folder))
                    else:
                        cell = measure_cell(model, tokens, run, Path(folder))
                        results["machine"]["kernels"] = cell["answers"][MEBP][0]["kernels"]
                results["cells"].append(cell)
                if arguments.json:
                    arguments.json.write_text(json.dumps(results, indent=1))
                publish(results, arguments.markdown, arguments.plot)
    return results


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cores = available_cores()
    parser.add_argument("--device", metavar="NAME", help="compare on this device: cpu, mlx or mlx-cpu")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="what to measure; all of it")
    parser.add_argument("--settings", nargs="+", metavar="NAME", help="which of PEFT's, as tables name them; all")
    parser.add_argument("--models", nargs="+", choices=[*DEVICE_MODELS, *LARGER], default=list(MODELS))
    parser.add_argument("--tokens", nargs="+", type=int, default=list(LENGTHS), help="in a row")
    parser.add_argument("--rounds", type=int, default=8, help="the most, of each model and length")
    parser.add_argument(
        "--seconds", type=float, default=60, help=f"no round begins after them, beyond the first {LEAST_ROUNDS}"
    )
    parser.add_argument("--threads", type=int, default=cores, help="of everyone; one for each core")
    parser.add_argument("--folder", type=there, help="keeps the models for the next run; a temporary one, on a disk")
    parser.add_argument("--json", type=Path, help="the file for every single time")
    parser.add_argument("--from", dest="files", nargs="+", type=Path, help="such files, to make the tables of")
    parser.add_argument(
        "--markdown",
        nargs="+",
        type=Path,
        default=[],
        metavar="PAGE",
        help="the pages that take the tables, each where its marks stand; rows not measured again stay",
    )
    parser.add_argument("--plot", type=Path, help="the picture to write, from the table of steps")
    arguments = parser.parse_args()
    if arguments.device and (arguments.parts or arguments.plot or arguments.settings):
        parser.error("--device: has no parts, settings or picture; leave out --parts, --settings and --plot")
    arguments.parts = arguments.parts or ([] if arguments.device else list(PARTS))
    if min(arguments.tokens) < 2:
        parser.error(f"--tokens {min(arguments.tokens)}: a token is learned from those before it; give at least 2")
    if not 1 <= arguments.threads <= cores:
        parser.error(f"--threads {arguments.threads}: this process may run on {cores} cores; give 1 to {cores}")
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: is not a number of rounds; give at least 1")
    return arguments


def main() -> None:
    arguments = parse()
    try:
        for name in (DEVICE_TABLES if arguments.device else TABLES) if arguments.markdown else ():
            read_between_marks(find_page(arguments.markdown, mark(name)), mark(name))  # refused before measuring
        if not arguments.files:
            show(measure_all(arguments))
        for file in arguments.files or ():
            results = json.loads(file.read_text())
            publish(results, arguments.markdown, arguments.plot)
            show(results)
    except (mebp.Error, OSError, RuntimeError, ValueError) as error:
        sys.stderr.write(f"speed.py: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
