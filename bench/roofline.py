# SPDX-License-Identifier: Apache-2.0
"""Where a step's time goes, and how near each kernel is to what the machine can do: a roofline.

    .venv/bin/python bench/roofline.py [--model Qwen2.5-0.5B] [--tokens 256] [--budget MB] [--threads N] [--steps 3]
        [--folder DIR] [--json FILE] [--markdown docs/speed-tables.md] [--plot docs/images/roofline.png]
    .venv/bin/python bench/roofline.py --from FILE [--markdown PAGE] [--plot PICTURE]
    .venv/bin/python bench/roofline.py --tasks 8 16 [--model ...] [--tokens ...] [--markdown docs/speed-tables.md]

bf16, int4 weights, LoRA r=8 on all linear layers, AdamW, batch 1. The step is the one in the middle of --steps, by
seconds. Its profile has the flops and bytes of each kernel call, counted by its equation (docs/kernels.md), and what
each thread did. The limits are measured after it, by the programs peak and memory_rate:
cmake -B build -DMEBP_BUILD_BENCH=ON && cmake --build build. MEBP_KERNELS holds both to fewer instructions.
--tasks says instead how many tasks a step's kernels give so many threads, which need no cores of their own.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from parts.folders import there
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.roofline.calls import sum_up, tasks_by_kernel
from parts.roofline.limits import measure_limits
from parts.roofline.plot import draw
from parts.roofline.report import gaps, kernels_table, tasks_table
from parts.shapes import LENGTHS
from parts.speed.cell import say, steps
from parts.speed.contender import contender
from parts.speed.machine import available_cores, describe, label
from parts.speed.models import PROFILED_MODELS, prepare
from parts.speed.rates import find_bench
from parts.speed.trace import calls_by_step

import mebp

STEP, TASKS = "bench/roofline.py: kernels", "bench/roofline.py: tasks"


def profile(bundle: Path, tokens: int, threads: int, count: int, folder: Path) -> list[tuple[dict, list[dict]]]:
    """Of each step what its process answered, and its kernel calls."""
    trace = folder / "trace.json"
    with contender(steps("mebp_steps", threads, "cpu", "adamw", bundle, tokens, trace)) as step:
        answers = [step() for _ in range(count)]
    return list(zip(answers, calls_by_step(trace, count), strict=True))


def compile_bundle(arguments: argparse.Namespace, folder: Path) -> Path:
    model = prepare(arguments.model, arguments.folder or folder, max(arguments.tokens, *LENGTHS), weights=False)
    budget = {"memory_budget": round(arguments.budget * 1e6)} if arguments.budget else {}
    return model.compile(folder / "roofline.mebp", arguments.tokens, **budget)


def measure(arguments: argparse.Namespace, folder: Path) -> dict:
    """For JSON: the step's kernels, the longest first, and the machine's limits."""
    bundle = compile_bundle(arguments, folder)
    say("steps")
    _, *warm = profile(bundle, arguments.tokens, arguments.threads, 1 + arguments.steps, folder)
    answer, calls = sorted(warm, key=lambda step: step[0]["seconds"])[len(warm) // 2]
    kernels = answer["kernels"]
    say("limits")
    limits = measure_limits(kernels, arguments.threads)
    return {
        "machine": label(describe() | {"kernels": kernels}),
        "model": arguments.model,
        "tokens": arguments.tokens,
        "budget": arguments.budget,
        "threads": arguments.threads,
        "seconds": answer["seconds"],
        "limits": asdict(limits),
        "kernels": {name: asdict(kernel) for name, kernel in sum_up(calls, limits).items()},
    }


def count_tasks(arguments: argparse.Namespace, folder: Path) -> dict:
    """For JSON: by number of threads, the tasks of each kernel."""
    bundle = compile_bundle(arguments, folder)
    tasks = {}
    for threads in arguments.tasks:
        say(f"{threads} threads")
        [(answer, calls)] = profile(bundle, arguments.tokens, threads, 1, folder)
        tasks[str(threads)] = {name: asdict(each) for name, each in tasks_by_kernel(calls, threads).items()}
    return {"kernels": answer["kernels"], "model": arguments.model, "tokens": arguments.tokens, "tasks": tasks}


def publish(results: dict, arguments: argparse.Namespace) -> None:
    """Rows of other machines, models, lengths and budgets stay."""
    counts = "tasks" in results
    new = tasks_table(results) if counts else kernels_table(results)
    if arguments.markdown:
        mark, together = (TASKS, 3) if counts else (STEP, 4)
        old = read_between_marks(arguments.markdown, mark)
        write_between_marks(arguments.markdown, mark, merge_tables(old, new, together + 1, together))
    if arguments.plot and not counts:
        draw(results, arguments.plot)
    print(*new, sep="\n")
    if not counts:
        print("", gaps(results), sep="\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cores = available_cores()
    parser.add_argument("--model", choices=PROFILED_MODELS, default="Qwen2.5-0.5B")
    parser.add_argument("--tokens", type=int, default=256, help="in a row")
    parser.add_argument("--budget", type=float, help="in MB, that the plan keeps; without it, the plan has none")
    parser.add_argument("--threads", type=int, default=cores, help="one for each core")
    parser.add_argument("--steps", type=int, default=3, help="beside the one that warms up")
    parser.add_argument("--tasks", type=int, nargs="+", metavar="N", help="numbers of threads to count tasks for")
    parser.add_argument("--folder", type=there, help="keeps the model for the next run; a temporary one, on a disk")
    parser.add_argument("--json", type=Path, help="the file for what was measured")
    parser.add_argument("--from", dest="file", type=Path, help="such a file, to make table and picture of")
    parser.add_argument("--markdown", type=Path, help="the page that takes the table; rows not measured again stay")
    parser.add_argument("--plot", type=Path, help="the picture to write")
    arguments = parser.parse_args()
    if arguments.tokens < 2:
        parser.error(f"--tokens {arguments.tokens}: a token is learned from those before it; give at least 2")
    if not 1 <= arguments.threads <= cores:
        parser.error(f"--threads {arguments.threads}: this process may run on {cores} cores; give 1 to {cores}")
    if arguments.steps < 1:
        parser.error(f"--steps {arguments.steps}: is not a number of steps; give at least 1")
    if arguments.tasks and min(arguments.tasks) < 1:
        parser.error(f"--tasks {min(arguments.tasks)}: is not a number of threads; give at least 1")
    if arguments.tasks and arguments.plot:
        parser.error("--tasks: has no picture; leave out --plot")
    return arguments


def main() -> None:
    arguments = parse()
    try:
        if arguments.file:
            results = json.loads(arguments.file.read_text())
            if "tasks" in results and arguments.plot:
                raise ValueError(f"{arguments.file}: has tasks, of which there is no picture; leave out --plot")
        else:
            if arguments.markdown:
                read_between_marks(arguments.markdown, TASKS if arguments.tasks else STEP)  # refused before measuring
            for program in () if arguments.tasks else ("peak", "memory_rate"):
                find_bench(program)
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                results = (count_tasks if arguments.tasks else measure)(arguments, Path(folder))
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1))
        publish(results, arguments)
    except (mebp.Error, OSError, RuntimeError, ValueError) as error:
        sys.stderr.write(f"roofline.py: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
