# SPDX-License-Identifier: Apache-2.0
"""What memory buys: steps of plans from the least memory to where more does not help, in turns with PEFT's.

    .venv/bin/python bench/frontier.py [--models SmolLM2-135M ...] [--tokens 256 1024] [--points 10]
        [--budgets MB ...] [--rounds 6] [--seconds 120] [--threads N] [--rates FILE] [--settings PEFT ...]
        [--compiled] [--earlier NAME=BIN] [--folder DIR] [--json FILE] [--markdown docs/time-for-memory.md]
        [--plot docs/images/frontier.png]
    .venv/bin/python bench/frontier.py --from FILE [--markdown PAGE] [--plot PICTURE]

bf16, int4 weights here, LoRA r=8 on all linear layers, batch 1, SGD here and AdamW there, which is less than a
hundredth of a step. Rates are calibrated first. The points are of `mebpc --frontier`, equally far from each other
along the curve, and the plan without a budget is one of them. Each contender is a process that loads once and then
makes its steps in turn with the others. A plan's peak is measured in a process of its own, mebp-run, PEFT's in its
contender. Where torch has no instructions for bf16, it takes part in f32.
--compiled adds torch.compile with half of the activations kept (activation_memory_budget), which takes minutes to load.
--earlier adds the plan without a budget of another build of mebp, such as an earlier commit's build/bin.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from parts.folders import there
from parts.frontier.plot import draw
from parts.frontier.report import TABLES, say_worst
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.process_memory import AnonymousPeak
from parts.runs import command, last_step
from parts.speed.cell import Run, Turn, peft_settings, say, steps, take_turns
from parts.speed.contender import contender
from parts.speed.machine import available_cores, describe, multiplies_bf16, read_cpu
from parts.speed.models import LARGER, MODELS, Model, prepare

import mebp
from mebp.calibration import calibrate
from mebp.tools import find_tool, run_tool

COMPILED = {"PEFT, compiled, budget 0.5": ["compiled"]}


def flags(options: dict) -> list[str]:
    return [str(part) for option in options.items() for part in option]


def list_points(model: Model, tokens: int, arguments: argparse.Namespace, rates: Path, folder: Path) -> list[dict]:
    """Of the frontier without spilling; `is_usual` is the plan that no budget has, which another may be faster than."""
    output = folder / "plan.json"
    options = {"--seq-len": tokens, "--threads": arguments.threads, "--rates": rates, "--plan-json": output}
    options |= {"--precision": "bf16", "--weights": "int4", "--optimizer": "sgd", "--spill": "none"}
    run_tool([find_tool("mebpc"), str(model.exported), "--plan-only", *flags(options)])
    plan = json.loads(output.read_text())
    usual = {"peak_bytes": plan["peak_bytes"], "kept_bytes": 0, "seconds": plan["predicted_seconds"], "is_usual": True}
    run_tool([find_tool("mebpc"), str(model.exported), "--frontier", *flags(options)])
    points = json.loads(output.read_text())["frontier"]
    # Along the curve, with as much of its way in time as in (the logarithm of) memory.
    curve = np.array([[point["seconds"], np.log(point["peak_bytes"])] for point in points])
    steps = np.linalg.norm(np.diff(curve, axis=0) / np.ptp(curve, axis=0), axis=1)
    way = np.concatenate([[0], steps.cumsum()])
    chosen = {int(np.abs(way - one).argmin()) for one in np.linspace(0, way[-1], arguments.points)}
    for budget in arguments.budgets:
        chosen.add(max(i for i, point in enumerate(points) if point["peak_bytes"] <= budget * 1e6))
    others = [points[i] | {"is_usual": False} for i in chosen if points[i]["peak_bytes"] != usual["peak_bytes"]]
    return sorted([usual, *others], key=lambda point: point["peak_bytes"])


def measure_peak(bundle: Path, tokens: int, threads: int, vocabulary: int, folder: Path) -> int:
    rows = np.random.default_rng(0).integers(0, vocabulary, (2, tokens), dtype=np.int32)
    np.save(folder / "tokens.npy", rows)
    process = subprocess.Popen(
        command(bundle, folder / "tokens.npy", "--threads", str(threads)), stdout=subprocess.DEVNULL
    )
    with AnonymousPeak(process.pid) as peak:
        status = process.wait()
    if status != 0:
        raise RuntimeError(f"mebp-run ended with status {status}")
    return peak.bytes


def earlier_build(model: Model, tokens: int, tools: Path, threads: int, folder: Path) -> Turn:
    """Its mebpc's bundle, and its mebp-run anew for each turn, of which the last step counts."""
    bundle, rows = folder / "earlier.mebp", folder / "tokens.npy"
    options = {"-o": bundle, "--seq-len": tokens, "--threads": threads, "--optimizer": "sgd"}
    options |= {"--precision": "bf16", "--weights": "int4"}
    options |= {"--random-weights": 0} if model.is_random else {}
    run_tool([str(tools / "mebpc"), str(model.exported), *flags(options)])

    def turn() -> dict:
        arguments = flags({"--tokens": rows, "--steps": 2, "--optimizer": "sgd", "--threads": threads})
        printed = run_tool([str(tools / "mebp-run"), str(bundle), *arguments, "--json"])
        return last_step(printed)

    return turn


def measure_cell(
    model: Model, tokens: int, ways: dict, arguments: argparse.Namespace, rates: Path, folder: Path
) -> dict:
    """`ways`: what PEFT is measured with, with the options of torch_steps."""
    points = list_points(model, tokens, arguments, rates, folder)
    with ExitStack() as stack:
        turns = {}
        for number, point in enumerate(points):
            bundle = folder / f"{number}.mebp"
            budget = {} if point["is_usual"] else {"memory_budget": point["peak_bytes"]}
            model.compile(bundle, tokens, rates=rates, spill="none", optimizer="sgd", **budget)
            say(f"{model.name}, {tokens} tokens: {point['peak_bytes'] / 1e6:.1f} MB")
            point["measured_bytes"] = measure_peak(
                bundle, tokens, arguments.threads, model.config["vocab_size"], folder
            )
            process = steps("mebp_steps", arguments.threads, "cpu", "sgd", bundle, tokens)
            turns[str(number)] = stack.enter_context(contender(process))
        for name, options in ways.items():
            say(f"{model.name}, {tokens} tokens: {name}")
            process = steps("torch_steps", arguments.threads, "cpu", "peft", model.weights, tokens, *options)
            turns[name] = stack.enter_context(contender(process))
        for name, tools in arguments.earlier:
            say(f"{model.name}, {tokens} tokens: {name}")
            turns[name] = earlier_build(model, tokens, tools, arguments.threads, folder)
        for turn in turns.values():
            turn()  # warms up
        run = Run([], arguments.threads, arguments.rounds, arguments.seconds)
        answers = take_turns(turns, run, f"{model.name}, {tokens} tokens")
    return {"model": model.name, "tokens": tokens, "points": points, "answers": answers}


def measure_all(arguments: argparse.Namespace) -> dict:
    ways = peft_settings(multiplies_bf16(describe()), arguments.settings) | (COMPILED if arguments.compiled else {})
    held = os.environ.get("MEBP_KERNELS")
    results = {"cpu": ", ".join(filter(None, [read_cpu()[0], held])), "threads": arguments.threads, "cells": []}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        rates = arguments.rates or Path(scratch) / "rates.json"
        if not rates.exists():
            say("calibrates")
            calibrate(rates, threads=arguments.threads)
        for name in arguments.models:
            model = prepare(name, arguments.folder or Path(scratch), max(arguments.tokens))
            for tokens in arguments.tokens:
                with tempfile.TemporaryDirectory(dir=scratch) as folder:
                    results["cells"].append(measure_cell(model, tokens, ways, arguments, rates, Path(folder)))
                if arguments.json:
                    arguments.json.write_text(json.dumps(results, indent=1))
                publish(results, arguments)
    return results


def publish(results: dict, arguments: argparse.Namespace) -> None:
    """Rows of other machines, models and lengths stay."""
    for name, make in TABLES.items() if arguments.markdown else ():
        mark, new = f"bench/frontier.py: {name}", make(results)
        old = read_between_marks(arguments.markdown, mark)
        write_between_marks(arguments.markdown, mark, merge_tables(old, new, 5, together=3))
    if arguments.plot:
        draw(results, arguments.plot)


def earlier(text: str) -> tuple[str, Path]:
    name, _, tools = text.partition("=")
    if not (Path(tools) / "mebpc").is_file():
        raise argparse.ArgumentTypeError(f"{text}: give NAME=BIN, a folder with that build's mebpc and mebp-run")
    return f"mebp {name}, without a budget", Path(tools).resolve()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=[*MODELS, *LARGER], default=list(MODELS))
    parser.add_argument("--tokens", nargs="+", type=int, default=[256, 1024], help="in a row")
    parser.add_argument("--points", type=int, default=10, help="of the frontier")
    parser.add_argument("--budgets", nargs="*", type=float, default=[], help="in MB, whose plans are points, too")
    parser.add_argument("--rounds", type=int, default=6, help="the most, of each model and length")
    parser.add_argument("--seconds", type=float, default=120, help="no round begins after them")
    parser.add_argument("--threads", type=int, default=available_cores(), help="of everyone; one for each core")
    parser.add_argument("--rates", type=Path, help="what mebp calibrate wrote, or is to write; else it does so again")
    parser.add_argument("--settings", nargs="+", metavar="NAME", help="which of PEFT's, as tables name them; all")
    parser.add_argument("--compiled", action="store_true", help="torch.compile, too")
    parser.add_argument(
        "--earlier", nargs="*", type=earlier, default=[], metavar="NAME=BIN", help="another build of mebp"
    )
    parser.add_argument("--folder", type=there, help="keeps the models for the next run; a temporary one, on a disk")
    parser.add_argument("--json", type=Path, help="the file for every single time")
    parser.add_argument("--from", dest="file", type=Path, help="such a file, to make tables and picture of")
    parser.add_argument("--markdown", type=Path, help="the page that takes the tables; rows not measured again stay")
    parser.add_argument("--plot", type=Path, help="the picture to write")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    try:
        results = json.loads(arguments.file.read_text()) if arguments.file else measure_all(arguments)
        publish(results, arguments)
    except (mebp.Error, ValueError, RuntimeError) as error:
        sys.stderr.write(f"frontier.py: {error}\n")
        sys.exit(2)
    for name, make in TABLES.items():
        print(f"\n{name}\n", *make(results), sep="\n", flush=True)
    print(say_worst(results))


if __name__ == "__main__":
    main()
