# SPDX-License-Identifier: Apache-2.0
"""mebp inspect NAME.mebp|ADAPTER"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from mebp.compile_options import CompileOptions
from mebp.errors import Error
from mebp.inspect import describe_trained, model_title
from mebp.outputs import PAGE, check_output
from mebp.plan import Plan
from mebp.tables import Table, megabytes
from mebp.words import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bundle", type=Path, metavar="NAME.mebp", help="a bundle, or an adapter's folder, whose bundle is shown"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write a page that shows memory over a step and what is in use at the peak",
    )
    parser.add_argument("--measure", action="store_true", help="run one step and show its peak on the page")
    parser.add_argument(
        "--frontier", type=Path, metavar="plans.json", help="show what mebpc --frontier --plan-json found on the page"
    )
    parser.add_argument(
        "--log", type=Path, metavar="run.jsonl", help="show the peak of this run on the page, and its answers"
    )


def run(arguments: argparse.Namespace) -> int:
    from mebp.building.using import find_used, is_adapter
    from mebp.inspect import inspect

    if is_adapter(arguments.bundle):
        arguments.bundle = find_used(arguments.bundle, None, None, CompileOptions()).bundle
    shown = {"--measure": arguments.measure, "--log": arguments.log, "--frontier": arguments.frontier}
    if arguments.html is None and any(shown.values()):
        raise Error(f"{next(filter(shown.get, shown))} needs --html FILE, the page to show it on")
    if arguments.html is not None:
        inputs = {"the bundle": arguments.bundle, "--log": arguments.log, "--frontier": arguments.frontier}
        check_output("--html", arguments.html, PAGE, inputs)
    found = inspect(arguments.bundle)
    if arguments.html is not None:
        _write_page(arguments, found)
    if arguments.json:
        say(json.dumps(found, indent=2))
    elif arguments.html is None:
        say("\n\n".join(map(str, _tables(found))))
    return 0


def _write_page(arguments: argparse.Namespace, found: dict) -> None:
    from mebp.report import write_report
    from mebp.report.frontier_chart import read_frontier
    from mebp.report.measure import measure_step, read_run
    from mebp.training.log import Answer, read_log

    measurements = [measure_step(arguments.bundle, found)] if arguments.measure else []
    measurements += [read_run(arguments.log)] if arguments.log else []
    answers = [entry for entry in read_log(arguments.log) if isinstance(entry, Answer)] if arguments.log else []
    points = read_frontier(arguments.frontier) if arguments.frontier else []
    write_report(arguments.html, found, measurements, points, answers)
    if not arguments.json:
        say(f"{arguments.html}: open it in a browser")


def _tables(found: dict) -> list[Table]:
    return [
        _model(found),
        Table("weights", ["storage", "tensors", "MB"], _by_storage(found["weights"])),
        *Plan(found).tables(),
        Table(
            "blocks",
            ["block", "kind", "programs", "weights, MB", "trainable numbers"],
            [
                [
                    block["name"],
                    block["kind"],
                    ", ".join(f"{use} {number}" for use, number in block["programs"].items()),
                    megabytes(block["weight_bytes"]),
                    f"{block['trainable_elements']:,}",
                ]
                for block in found["blocks"]
            ],
        ),
        Table(
            "programs",
            ["", "program", "kernel calls", "loops", "scratch, MB"],
            [
                [
                    str(number),
                    program["name"],
                    str(sum(program["kernels"].values())),
                    ", ".join(f"{loop['domain']} by {loop['size']}" for loop in program["loops"]),
                    megabytes(program["arena_bytes"]),
                ]
                for number, program in enumerate(found["programs"])
            ],
        ),
    ]


def _model(found: dict) -> Table:
    model = found["model"]
    return Table(
        model_title(found),
        ["", ""],
        [
            ["made by", found["producer"]],
            ["compiled for", f"batch {model['batch']}, sequence {model['sequence']}, {model['activation']}"],
            ["vocabulary, width", f"{model['vocabulary']:,}, {model['hidden']:,}"],
            ["trained", describe_trained(found)],
            ["trainable numbers", f"{sum(t['rows'] * t['columns'] for t in found['trainables']):,}"],
            ["weights, mapped", f"{megabytes(found['weights_bytes'])} MB"],
        ],
    )


def _by_storage(weights: Sequence[dict]) -> list[list[str]]:
    storages = dict.fromkeys(weight["storage"] for weight in weights)
    grouped = {storage: [weight["bytes"] for weight in weights if weight["storage"] == storage] for storage in storages}
    return [[storage, str(len(sizes)), megabytes(sum(sizes))] for storage, sizes in grouped.items()]
