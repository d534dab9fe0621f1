# SPDX-License-Identifier: Apache-2.0
"""Steps of two threads, each on a core of its own, where one core is slowed: beside the sum of the cores' rates.

    .venv/bin/python bench/slow_core.py [--model SmolLM2-135M] [--tokens 256] [--share 0.42] [--rounds 8]
        [--seconds 120] [--folder DIR] [--markdown docs/speed-tables.md]

A timer stops the thread of the second core for all but `share` of every 0.3 ms. One thread on the first core,
one on the second, and two on both make steps in turn. The last column is what two reach of the sum of the others'
rates, the median of the rounds with the least and the most of them. It needs the library slow_thread: cmake -B build
-DMEBP_BUILD_BENCH=ON && cmake --build build.
"""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from parts.folders import there
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.speed.cell import Run, Turn, take_turns
from parts.speed.contender import contender
from parts.speed.machine import available_cores, read_cpu
from parts.speed.models import MODELS, Model, prepare
from parts.speed.rates import find_bench
from parts.spread import Spread

import mebp

MARK = "bench/slow_core.py"
HEADER = [
    "| machine | kernels | model | tokens | fast core, s | slow core, s | both, s | of the sum of rates |",
    "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
]
KEYS = 4


def measure(model: Model, arguments: argparse.Namespace, folder: Path) -> list[str]:
    cores = sorted(os.sched_getaffinity(0))[:2]
    bundle = model.compile(folder / "slow_core.mebp", arguments.tokens)
    ways = {"fast": (1, cores[:1]), "slow": (arguments.share, cores[1:]), "both": (arguments.share, cores)}
    with ExitStack() as stack:
        turns: dict[str, Turn] = {}
        for name, (share, own) in ways.items():
            listed = ",".join(map(str, own))
            process = [find_bench("libslow_thread.so"), share, listed, bundle, arguments.tokens]
            process = [sys.executable, "-m", "parts.speed.slowed_steps", *map(str, process)]
            turns[name] = stack.enter_context(contender(process))
        answers = take_turns(turns, Run([], 2, arguments.rounds, arguments.seconds), model.name)
    fast, slow, both = (np.array([answer["seconds"] for answer in answers[name]]) for name in ways)
    reached = 1 / both / (1 / fast + 1 / slow)
    row = [read_cpu()[0], answers["both"][0]["kernels"], model.name, f"{arguments.tokens:,}"]
    row += [f"{np.median(times):.2f}" for times in (fast, slow, both)]
    row.append(Spread.of(reached).describe())
    return [*HEADER, f"| {' | '.join(row)} |"]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default=MODELS[0])
    parser.add_argument("--tokens", type=int, default=256, help="in a row")
    parser.add_argument(
        "--share",
        type=float,
        default=0.42,
        help="of the second core's time that is left, before what the timer itself takes",
    )
    parser.add_argument("--rounds", type=int, default=8, help="the most")
    parser.add_argument("--seconds", type=float, default=120, help="no round begins after them")
    parser.add_argument("--folder", type=there, help="keeps the model for the next run; a temporary one, on a disk")
    parser.add_argument("--markdown", type=Path, help="the page that takes the table; rows not measured again stay")
    arguments = parser.parse_args()
    if not 0 < arguments.share < 1:
        parser.error(f"--share {arguments.share}: is no part of a core's time; give more than 0 and less than 1")
    if available_cores() < 2:
        parser.error("this process may run on one core alone, and two are compared; run it where there are two")
    return arguments


def main() -> None:
    arguments = parse()
    try:
        old = read_between_marks(arguments.markdown, MARK) if arguments.markdown else []
        with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
            model = prepare(arguments.model, arguments.folder or Path(scratch), arguments.tokens)
            rows = measure(model, arguments, Path(scratch))
        if arguments.markdown:
            write_between_marks(arguments.markdown, MARK, merge_tables(old, rows, KEYS))
    except (mebp.Error, OSError, RuntimeError, ValueError) as error:
        sys.stderr.write(f"slow_core.py: {error}\n")
        sys.exit(2)
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
