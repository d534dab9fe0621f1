# SPDX-License-Identifier: Apache-2.0
"""Seconds and checkpoints of a step that trains the last layers alone, beside the same plan of all, in turns with PEFT.

    .venv/bin/python bench/lora_layers.py [--model Qwen2.5-0.5B] [--tokens 256] [--last 8] [--budget 2GB] [--rounds 8]
        [--seconds 120] [--threads N] [--rates FILE] [--no-peft] [--folder DIR] [--markdown docs/speed-tables.md]

bf16, int4 weights here, LoRA r=8 on all linear layers, AdamW, batch 1. `usual` is the plan without a budget, `fastest`
the one that --budget gets. PEFT runs without checkpointing, with layers_to_transform. Each contender is a process that
loads once and then makes its steps in turn with the others; a ratio is the median of those of the rounds, with the
least and the most of them.
"""

import argparse
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from parts.folders import there
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.speed.cell import Run, Turn, say, steps, take_turns
from parts.speed.contender import contender
from parts.speed.machine import available_cores, read_cpu
from parts.speed.models import MODELS, Model, prepare
from parts.spread import Spread

import mebp
from mebp.inspect import inspect

MARK = "bench/lora_layers.py"
HEADER = [
    "| machine | model | tokens | plan | layers | step, s | of all layers' | checkpoints, MB | PEFT's, times as long |",
    "| --- | --- | ---: | --- | --- | ---: | ---: | ---: | ---: |",
]
KEYS = 5


def compile_all(model: Model, arguments: argparse.Namespace, folder: Path) -> dict[tuple[str, str], Path]:
    """By plan and layers."""
    bundles = {}
    for plan, budget in (("usual", None), ("fastest", arguments.budget)):
        for layers in ("all", f"last {arguments.last}"):
            chosen = None if layers == "all" else layers.replace(" ", ":")
            options = {"memory_budget": budget, "spill": "none", "rates": arguments.rates or "none"}
            say(f"compiles the {plan} plan of {layers}")
            bundles[plan, layers] = model.compile(
                folder / f"{plan}-{layers}.mebp".replace(" ", "-"), arguments.tokens, lora_layers=chosen, **options
            )
    return bundles


def count_checkpoints(bundle: Path) -> int:
    buffers = inspect(bundle)["plan"]["buffers"]
    return sum(each["bytes"] for each in buffers if each["name"] == "checkpoints")


def beside(times: list[dict], others: list[dict]) -> str:
    return Spread.of(one["seconds"] / other["seconds"] for one, other in zip(times, others, strict=True)).describe()


def measure(model: Model, arguments: argparse.Namespace, folder: Path) -> list[str]:
    bundles = compile_all(model, arguments, folder)
    last = f"last {arguments.last}"
    of_peft = {"all": "PEFT, all", last: f"PEFT, {last}"} if arguments.peft else {}
    with ExitStack() as stack:
        turns: dict[object, Turn] = {}
        for key, bundle in bundles.items():
            process = steps("mebp_steps", arguments.threads, "cpu", "adamw", bundle, arguments.tokens)
            turns[key] = stack.enter_context(contender(process))
        for layers, name in of_peft.items():
            options = [] if layers == "all" else [last.replace(" ", ":")]
            process = steps("torch_steps", arguments.threads, "cpu", "peft", model.weights, arguments.tokens, *options)
            turns[name] = stack.enter_context(contender(process))
        for turn in turns.values():
            turn()  # warms up
        answers = take_turns(turns, Run([], arguments.threads, arguments.rounds, arguments.seconds), model.name)
    rows = []
    for (plan, layers), bundle in bundles.items():
        times = answers[plan, layers]
        row = [read_cpu()[0], model.name, arguments.tokens, plan, layers]
        row += [f"{statistics.median(each['seconds'] for each in times):.2f}"]
        row += ["1" if layers == "all" else beside(times, answers[plan, "all"])]
        row += [f"{count_checkpoints(bundle) / 1e6:.1f}"]
        row += [beside(answers[of_peft[layers]], times) if of_peft else ""]
        rows.append("| " + " | ".join(map(str, row)) + " |")
    if of_peft:
        say(f"PEFT, {last}, beside all: {beside(answers[of_peft[last]], answers[of_peft['all']])}")
    return rows


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default=MODELS[-1])
    parser.add_argument("--tokens", type=int, default=256, help="in a row")
    parser.add_argument("--last", type=int, default=8, help="how many layers are trained")
    parser.add_argument("--budget", default="2GB", help="of the fastest plan")
    parser.add_argument("--rounds", type=int, default=8, help="the most")
    parser.add_argument("--seconds", type=float, default=120, help="no round begins after them")
    parser.add_argument("--threads", type=int, default=available_cores(), help="of everyone; one for each core")
    parser.add_argument("--rates", type=Path, help="what mebp calibrate wrote; else times are estimated")
    parser.add_argument("--peft", action=argparse.BooleanOptionalAction, default=True, help="beside it, too")
    parser.add_argument("--folder", type=there, help="keeps the model for the next run; a temporary one, on a disk")
    parser.add_argument("--markdown", type=Path, help="the page that takes the table; rows not measured again stay")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    try:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
            model = prepare(arguments.model, arguments.folder or Path(scratch), arguments.tokens)
            table = [*HEADER, *measure(model, arguments, Path(scratch))]
        if arguments.markdown:
            old = read_between_marks(arguments.markdown, MARK)
            write_between_marks(arguments.markdown, MARK, merge_tables(old, table, KEYS))
    except (mebp.Error, ValueError, RuntimeError) as error:
        sys.stderr.write(f"lora_layers.py: {error}\n")
        sys.exit(2)
    print(*table, sep="\n")


if __name__ == "__main__":
    main()
