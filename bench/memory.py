# SPDX-License-Identifier: Apache-2.0
"""Peak memory of a training step: the plan, what the system counts, and other systems beside it.

    .venv/bin/python bench/memory.py [--parts plans optimizers least others] [--shapes Qwen2.5-0.5B ...]
        [--lengths 256 1024] [--streambp CHECKOUT --streambp-python PYTHON]
        [--markdown docs/memory.md] [--plot docs/images/memory.png]

Qwen2.5's shapes with random int4 weights, bf16 activations, LoRA r=8 on all linear layers, SGD, batch 1. Every system
runs in a process of its own. The weights need a few GB of disk, in --folder, for as long as it runs.
"""

import argparse
import shutil
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

from parts.folders import there
from parts.memory.least import BUDGETS, LENGTH, measure_least
from parts.memory.optimizers import measure_optimizers
from parts.memory.others import PEFT, measure_other, save_model, streambp
from parts.memory.plot import draw
from parts.memory.report import least_table, optimizers_table, others_table, plans_table
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.process_memory import Memory, watch
from parts.runs import command, compile_random, export, last_step, write_tokens
from parts.shapes import LENGTHS, SHAPES

from mebp.tools import run_tool

PARTS = ("plans", "optimizers", "least", "others")
TABLES = {"plans": plans_table, "optimizers": optimizers_table, "least": least_table, "others": others_table}
KEYS = {"plans": 2, "optimizers": 4, "least": 3, "others": 3}  # the first cells of a row, which say what was measured


@dataclass(frozen=True)
class PlanCell:
    """A shape at a length. Bytes and seconds; `sampled` after every kernel call, `polled` from outside."""

    shape: str
    length: int
    mesp: float  # MB
    budget: int  # MB
    planned: int
    sampled: int
    polled: Memory
    seconds: float
    fastest_planned: int  # of the plan without a budget
    fastest_seconds: float
    ratio: float  # of times, from steps in turns


def time_step(bundle: Path, tokens: Path) -> dict:
    """A step of its own; the bundle's pages are in the page cache since they were written."""
    return last_step(run_tool(command(bundle, tokens, steps=1)))


def measure_plan(name: str, length: int, exported: Path, folder: Path, rounds: int) -> PlanCell:
    shape = SHAPES[name]
    budget = shape.budgets[length]
    fitted, fastest = folder / "fitted.mebp", folder / "fastest.mebp"
    compile_random(exported, fitted, length, memory_budget=f"{budget}MB", spill="none")
    compile_random(exported, fastest, length)
    tokens = write_tokens(folder / "tokens.npy", length)

    polled, output = watch(command(fitted, tokens, "--sample-memory"))
    end = last_step(output)
    # In turns, because a shared machine's speed changes from minute to minute.
    pairs = [(time_step(fitted, tokens), time_step(fastest, tokens)) for _ in range(rounds)]
    shutil.rmtree(fitted)
    shutil.rmtree(fastest)
    return PlanCell(
        shape=name,
        length=length,
        mesp=shape.mesp[length],
        budget=budget,
        planned=end["planned_bytes"],
        sampled=end["peak_bytes"],
        polled=polled,
        seconds=min(ours["seconds"] for ours, _ in pairs),
        fastest_planned=pairs[0][1]["planned_bytes"],
        fastest_seconds=min(other["seconds"] for _, other in pairs),
        ratio=statistics.median(ours["seconds"] / other["seconds"] for ours, other in pairs),
    )


class Bench:
    """The tables so far. They are shown and published cell by cell, and what stands on the page stays until it is
    measured again: a run of all shapes takes long, and may be stopped."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        page = arguments.markdown
        self.tables = {part: read_between_marks(page, self.mark(part)) if page else [] for part in PARTS}

    @staticmethod
    def mark(part: str) -> str:
        return f"bench/memory.py: {part}"

    def run(self) -> None:
        arguments = self.arguments
        for name in arguments.shapes:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                exported = export(name, Path(folder), max(arguments.lengths))
                if "plans" in arguments.parts:
                    for length in arguments.lengths:
                        self.add("plans", measure_plan(name, length, exported, Path(folder), arguments.rounds))
                if "least" in arguments.parts:
                    tokens = write_tokens(Path(folder) / "tokens.npy", LENGTH)
                    for budget in BUDGETS[name]:
                        self.add("least", measure_least(name, budget, exported, tokens, Path(folder)))
                if name == arguments.shapes[0]:
                    self.run_first_shape(name, exported, Path(folder))

    def run_first_shape(self, name: str, exported: Path, folder: Path) -> None:
        """What one shape is enough for."""
        arguments = self.arguments
        if "optimizers" in arguments.parts:
            length, bundle = min(arguments.lengths), folder / "optimizers.mebp"
            compile_random(exported, bundle, length, memory_budget=f"{SHAPES[name].budgets[length]}MB", spill="none")
            tokens = write_tokens(folder / "tokens.npy", length)
            self.add("optimizers", *measure_optimizers(name, length, bundle, tokens, folder))
            shutil.rmtree(bundle)
        if "others" in arguments.parts:
            save_model(SHAPES[name], folder / "config", folder / "model")
            systems = [PEFT]
            if arguments.streambp:
                systems.append(streambp(arguments.streambp_python, arguments.streambp))
            for length in arguments.lengths:
                for system in systems:
                    self.add("others", measure_other(system, name, length, folder / "model"))

    def add(self, part: str, *cells) -> None:
        new = TABLES[part](cells)
        print(*new[2:], sep="\n", flush=True)
        self.tables[part] = merge_tables(self.tables[part], new, KEYS[part])
        if self.arguments.markdown:
            write_between_marks(self.arguments.markdown, self.mark(part), self.tables[part])
        if self.arguments.plot and self.tables["plans"]:
            draw(self.tables["plans"], self.tables["others"], self.arguments.plot)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure; all of it")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--lengths", nargs="+", type=int, choices=LENGTHS, default=list(LENGTHS))
    parser.add_argument("--rounds", type=int, default=3, help="pairs of runs that the times come from")
    parser.add_argument("--streambp", type=Path, help="a checkout of StreamBP, to measure it beside PEFT")
    parser.add_argument("--streambp-python", help="a Python that has what StreamBP asks for")
    parser.add_argument("--folder", type=there, help="where bundles lie while it runs, on a disk; a temporary one")
    parser.add_argument(
        "--markdown", type=Path, help="the page that takes the tables; rows that are not measured again stay"
    )
    parser.add_argument("--plot", type=Path, help="the picture to write, from the tables of plans and others")
    arguments = parser.parse_args()
    if arguments.streambp and not (arguments.streambp / "src" / "streambp" / "stream_model.py").is_file():
        parser.error(f"--streambp {arguments.streambp}: is not a checkout of StreamBP; it has no src/streambp")
    if arguments.streambp and not arguments.streambp_python:
        parser.error("--streambp needs --streambp-python: StreamBP asks for an older transformers than this one")
    Bench(arguments).run()


if __name__ == "__main__":
    main()
