# SPDX-License-Identifier: Apache-2.0
"""From nothing to the end of the first step, in steps' time: what opening a bundle costs where its pages are cached.

    .venv/bin/python bench/first_step.py [--shape Qwen2.5-0.5B] [--tokens 256] [--runs 5] [--steps 4]

Of mebp-run the start of its process counts, of `mebp.Session` what comes after `import mebp`. Each run is a process of
its own, which gives one ratio: its time to the end of the first step over the median of its later steps.
"""

import argparse
import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from memory_shapes import SHAPES
from shape_runs import command, compile_random, export, write_tokens

import mebp


def mebp_run(bundle: Path, tokens: Path, steps: int) -> list[float]:
    """When each step ended, in seconds from the start of the process."""
    begin = time.perf_counter()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command(bundle, tokens, steps=steps), **pipes) as process:
        ends = [time.perf_counter() - begin for _ in process.stdout]
        reason = process.stderr.read()
    if process.returncode != 0:
        raise mebp.Error(reason.strip())
    return ends[:steps]  # its last line sums up


def session(bundle: Path, tokens: Path, steps: int) -> list[float]:
    """When each step ended, in seconds from opening the bundle; in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as fresh:
        return fresh.apply(session_here, (bundle, tokens, steps))


def session_here(bundle: Path, tokens: Path, steps: int) -> list[float]:
    ids = np.load(tokens)[:1]
    begin, ends = time.perf_counter(), []
    opened = mebp.Session(bundle, optimizer="sgd")
    for _ in range(steps):
        opened.step(ids, ids)
        ends.append(time.perf_counter() - begin)
    return ends


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="Qwen2.5-0.5B")
    parser.add_argument("--tokens", type=int, default=256, help="of a sequence, the longest that the bundle takes")
    parser.add_argument("--runs", type=int, default=5, help="of each, in turns; the first reads the weights in")
    parser.add_argument("--steps", type=int, default=4, help="of each run, the first included")
    parser.add_argument("--folder", type=Path, help="where the bundle lies; a temporary one")
    arguments = parser.parse_args()
    if arguments.steps < 2:
        parser.error(f"--steps {arguments.steps}: give at least 2, the first is compared with the others")

    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        bundle = Path(folder) / "shape.mebp"
        compile_random(export(arguments.shape, Path(folder), arguments.tokens), bundle, arguments.tokens)
        tokens = write_tokens(Path(folder) / "tokens.npy", arguments.tokens, rows=1)
        mebp_run(bundle, tokens, 1)
        ways = {"mebp-run": mebp_run, "Session": session}
        firsts, laters = {name: [] for name in ways}, {name: [] for name in ways}
        for _ in range(arguments.runs):
            for name, way in ways.items():
                ends = way(bundle, tokens, arguments.steps)
                firsts[name].append(ends[0])
                laters[name].append(float(np.median(np.diff(ends))))
    for name in ways:
        ratios = np.array(firsts[name]) / laters[name]
        print(
            f"{name}: {np.median(firsts[name]):.2f} s to the end of the first step, {np.median(laters[name]):.2f} s a "
            f"later one: median {np.median(ratios):.2f}, {ratios.min():.2f} to {ratios.max():.2f}, {len(ratios)} runs"
        )


if __name__ == "__main__":
    try:
        main()
    except mebp.Error as error:
        sys.stderr.write(f"first_step.py: {error}\n")
        sys.exit(2)
