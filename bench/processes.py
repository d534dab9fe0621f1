# SPDX-License-Identifier: Apache-2.0
"""Several processes on one machine beside one process with as many threads: SmolLM2-135M, 256 tokens.

    .venv/bin/python bench/processes.py ../shared/data/wikitext-2/test.txt [--rounds 3] [--markdown docs/distributed.md]

Each way trains the same steps of M micro-batches, by torchrun or alone, and they take turns: N processes share out the
machine's threads, and the first way is one process with all of them. Tokens a second are of the median step. Adapters
are compared bit for bit.
"""

import argparse
import hashlib
import json
import os
import statistics
import tempfile
from pathlib import Path

from parts import group_runs
from parts.group_runs import LENGTH
from parts.pages import write_between_marks
from parts.spread import Spread


def run(bundle: Path, text: Path, folder: Path, processes: int, count: int, steps: int) -> tuple[float, str]:
    """Tokens a second, and a digest of the adapter."""
    log, out = folder / "log.jsonl", folder / "adapter"
    command = [
        *("train", bundle, "--data", text, "--steps", steps, "--global-batch", count, "--log", log),
        *("--adapter-out", out, "--overwrite"),
    ]
    program = ["-m", "mebp"] if processes == 1 else ["-m", "--", "mebp"]
    group_runs.run(processes, *program, *command)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    speed = statistics.median(count * LENGTH / record["seconds"] for record in records[1:])
    return speed, hashlib.sha256((out / "adapter_model.safetensors").read_bytes()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--global-batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle = group_runs.smollm2(folder)
        found: dict[int, list[float]] = {processes: [] for processes in arguments.processes}
        digests: dict[int, str] = {}
        for _ in range(arguments.rounds):
            for processes in arguments.processes:
                speed, digests[processes] = run(bundle, arguments.text.resolve(), folder, processes,
                                                arguments.global_batch, arguments.steps)  # fmt: skip
                found[processes].append(speed)
    first = arguments.processes[0]
    cores = len(os.sched_getaffinity(0))
    lines = [
        "| processes | threads of each | tokens/s | beside the first | adapter |",
        "| ---: | ---: | ---: | ---: | --- |",
    ]
    for processes, speeds in found.items():
        beside = Spread.of(one / other for one, other in zip(speeds, found[first], strict=True)).describe()
        same = "the same bits" if digests[processes] == digests[first] else "differs"
        lines.append(
            f"| {processes} | {max(1, cores // processes)} | {statistics.median(speeds):.0f} | {beside} | {same} |"
        )
    print("\n".join(lines))
    if arguments.markdown:
        write_between_marks(arguments.markdown, "bench/processes.py", lines)


if __name__ == "__main__":
    main()
