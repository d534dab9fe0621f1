# SPDX-License-Identifier: Apache-2.0
"""mebp calibrate [--device NAME] [-o FILE]"""

import argparse
import json
from pathlib import Path

from mebp.errors import Error
from mebp.tables import Table
from mebp.waiting import waiting
from mebp.words import say

_MOST_THREADS = 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write the rates to this file (default: the one that mebpc reads)",
    )
    parser.add_argument(
        "--device", default="cpu", metavar="NAME", help="time this device: cpu, mlx or mlx-cpu (default: cpu)"
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="time the CPU's kernels on 1 thread and on N (default: all)"
    )
    parser.add_argument("--quick", action="store_true", help="time few calls, to try it out; predictions will be poor")
    parser.add_argument("--json", action="store_true", help="print the file as JSON")


def run(arguments: argparse.Namespace) -> int:
    from mebp.calibration import calibrate, default_file

    if arguments.threads is not None and not 1 <= arguments.threads <= _MOST_THREADS:
        raise Error(f"--threads {arguments.threads}: give 1 to {_MOST_THREADS}")
    with waiting("timing kernels; leave the machine alone"):
        found = calibrate(arguments.output, device=arguments.device, threads=arguments.threads, quick=arguments.quick)
    if arguments.json:
        say(json.dumps(found, indent=1))
    else:
        say(_table(found))
        reader = "mebpc" if arguments.device == "cpu" else f"mebpc --device {arguments.device}"
        file = arguments.output or default_file(arguments.device)
        say(f"\n{file}: {reader} reads this file to predict step times")
    return 0


def _table(found: dict) -> Table:
    """What products of a matrix with weights come to where nothing else counts, which most of a step is."""
    product = found["terms"].index("product")
    rows = []
    for name, rates in found["nanoseconds"].items():
        kernel, *kinds = name.split(" ", 2)
        if kernel.startswith("linear") and kinds[1:] and not kinds[1].startswith("lora"):
            speeds = [f"{2 / rate[product]:,.0f}" if rate[product] else "" for rate in rates]
            rows.append([kernel, *kinds, *speeds])
    if found["device"] == "cpu":
        columns = [f"{count} thread{'s' * (count > 1)}" for count in found["threads"]]
    else:
        columns = [found["device"]]
    title = f"{found['description']}: products in GFLOP/s"
    return Table(title, ["kernel", "activations", "weights", *columns], rows)
