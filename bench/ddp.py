# SPDX-License-Identifier: Apache-2.0
"""Two processes beside torch's DistributedDataParallel with PEFT on the same model: SmolLM2-135M, 256 tokens, f32.

    .venv/bin/python bench/ddp.py [--processes 2] [--rounds 5] [--markdown docs/distributed.md]

Each process has both, and they take turns, step by step: LoRA of rank 8 on all linear layers, AdamW, one thread each,
--global-batch 8. DDP's base are the bundle's weights as base_weights() has them, and its loss is the mean over the
labels of all processes.
"""

import argparse
import tempfile
from pathlib import Path

from parts.group_runs import LENGTH, smollm2
from parts.pages import write_between_marks
from parts.spread import Spread
from scale import COUNT, call

from mebp.exporter.packaged import unpack


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        bundle, model = smollm2(Path(name), precision="f32"), unpack("packaged:smollm2")
        found = call("beside", arguments.processes, bundle, COUNT, arguments.rounds, model)
    lines = ["| system | tokens/s | slowest to fastest step | beside DDP |", "| --- | ---: | ---: | ---: |"]
    for system, seconds in found.items():
        speed = Spread.of(COUNT * LENGTH / each for each in seconds)
        beside = Spread.of(other / own for own, other in zip(seconds, found["DDP"], strict=True))
        lines.append(f"| {system} | {speed.median:.0f} | {speed.extent(0)} | {beside.describe()} |")
    print("\n".join(lines))
    if arguments.markdown:
        write_between_marks(arguments.markdown, "bench/ddp.py", lines)


if __name__ == "__main__":
    main()
