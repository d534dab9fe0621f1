# SPDX-License-Identifier: Apache-2.0
"""A model of a step's time in N processes beside what is measured, and what it says of 64 to 1,024 machines.

    .venv/bin/python bench/scale.py [--processes 2 4] [--delays 0 10 100] [--rounds 3] [--markdown docs/distributed.md]
    .venv/bin/python bench/scale.py --model-only [--markdown docs/distributed.md]

SmolLM2-135M, rows of 256 tokens, --global-batch 8. The model's rates come from one process with one thread, and from a
bench of what processes send, alone: never from the steps that it is compared with. Delays, in ms, are put into whatever
is sent. Where processes are more than cores, each computes at its share of them.
1. A process computes its micro-batches one after the other. Gradients are complete in the last one's backward, one
   layer after the other.
2. Sums go on beside it, one bucket after the other. One takes alpha + bytes / B, by the least squares of several sizes,
   and a delay twice: what is to be summed is sent, and the sums.
3. The step ends with the later of both. Before it counts of labels are sent, and losses after it.
"""

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from parts.group_runs import run_for_json, smollm2
from parts.pages import write_between_marks

from mebp.distributed.sums import BUCKET
from mebp.inspect import inspect

COUNT = 8
WORKER = Path(__file__).parent / "parts" / "process_steps.py"


@dataclass(frozen=True)
class Machine:
    """What a step's time follows from. Seconds, bytes, and bytes a second."""

    alpha: float
    bandwidth: float
    number: float  # a number from each process to each

    def sum(self, size: float) -> float:
        return self.alpha + size / self.bandwidth


def step_seconds(
    compute: float, backward: float, gradients: float, bucket: float, machine: Machine, delay: float = 0.0
) -> float:
    """`compute`: of all of a process's micro-batches; `backward`: of the last one, in which `gradients` bytes become
    complete evenly."""
    summed, begun = 0.0, compute - backward
    for done in np.arange(bucket, gradients + bucket, bucket):
        complete = min(done, gradients)
        ready = begun + backward * complete / gradients
        summed = max(summed, ready) + machine.sum(complete - (done - bucket)) + 2 * delay
    return max(compute, summed) + 2 * (machine.number + delay)


def call(how: str, processes: int, *arguments: object) -> dict:
    return run_for_json(processes, WORKER, how, *arguments)


def compare(bundle: Path, processes: list[int], delays: list[float], rounds: int) -> list[str]:
    gradients = sum(4 * each["rows"] * each["columns"] for each in inspect(bundle)["trainables"])
    lines = ["| processes | delay, ms | predicted, s | measured, s | apart |", "| ---: | ---: | ---: | ---: | ---: |"]
    for count in processes:
        alone = call("alone", 1, bundle, COUNT // count, rounds)
        sent = call("collectives", count, bundle, COUNT, rounds)
        slope, alpha = np.polyfit([float(size) for size in sent["sums"]], list(sent["sums"].values()), 1)
        machine = Machine(max(0.0, alpha), 1 / slope, sent["number"])
        share = max(1.0, count / len(os.sched_getaffinity(0)))
        compute = share * alone["step"]
        backward = compute / (COUNT // count) - share * alone["forward"]
        measured = call("steps", count, bundle, COUNT, rounds, *(delay / 1000 for delay in delays))
        for delay in delays:
            found = measured[str(delay / 1000)]
            predicted = step_seconds(compute, backward, gradients, 4 * BUCKET, machine, delay / 1000)
            lines.append(f"| {count} | {delay:g} | {predicted:.2f} | {found:.2f} | {predicted / found - 1:+.0%} |")
            print(lines[-1], flush=True)
    return lines


GRADIENTS = 80.7e6  # bytes of LoRA of rank 8 on all linear layers of a 7B model
LINKS = {  # a step's seconds of one row of 4,096 tokens, alpha and bytes a second
    "H100, 400 Gb/s InfiniBand": (0.46, 10e-6, 40e9),
    "24 GB GPU, 10 GbE": (2.3, 50e-6, 1.1e9),
    "32-core CPU, 25 GbE": (9.2, 50e-6, 2.8e9),
}
MACHINES, PER_GROUP = (64, 256, 1024), 8
HOURS = 6300  # of a machine between two failures of its own


def many() -> list[str]:
    """A row for each number of machines: the lost share with the flat tree that mebp has, and with two levels of it."""
    lines = [
        f"| machines | {' | '.join(LINKS)} | tokens a step | a failure every |",
        "| ---: " * (len(LINKS) + 3) + "|",
    ]
    for count in MACHINES:
        cells = []
        for step, alpha, bandwidth in LINKS.values():
            lost = []
            for messages in (count - 1, PER_GROUP - 1 + count // PER_GROUP - 1):
                # Each part goes there and back: a message to each other rank, and twice all bytes but one's own.
                machine = Machine(2 * alpha * messages, bandwidth / (2 * (count - 1) / count), alpha * messages)
                whole = step_seconds(step, step * 2 / 3, GRADIENTS, 4 * BUCKET, machine)
                lost.append(f"{1 - step / whole:.1%}")
            cells.append(" / ".join(lost))
        lines.append(f"| {count:,} | {' | '.join(cells)} | {count * 4096 / 1e6:.2f} M | {HOURS / count:.0f} h |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--delays", type=float, nargs="+", default=[0, 10, 100], help="ms")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model-only", action="store_true", help="the table of many machines alone")
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    tables = {"many machines": many()}
    print("\n".join(tables["many machines"]))
    if not arguments.model_only:
        with tempfile.TemporaryDirectory() as name:
            tables["measured"] = compare(smollm2(Path(name)), arguments.processes, arguments.delays, arguments.rounds)
    for name, lines in tables.items() if arguments.markdown else ():
        write_between_marks(arguments.markdown, f"bench/scale.py: {name}", lines)


if __name__ == "__main__":
    main()
