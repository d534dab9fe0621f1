# SPDX-License-Identifier: Apache-2.0
"""mebp inspect NAME.mebp"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mebp.errors import Error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="NAME.mebp")
    parser.add_argument("--json", action="store_true", help="all of it, for programs")
    parser.add_argument("--html", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    from mebp.inspect import inspect

    if arguments.html is not None:
        raise Error("--html is not in this build; use --json")
    found = inspect(arguments.bundle)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    console = Console(highlight=False)
    for title, table in _tables(found):
        console.print(title, style="bold", markup=False)
        console.print(table)
        console.print()
    return 0


def _tables(found: dict) -> Iterable[tuple[str, Table]]:
    model, plan, lora = found["model"], found["plan"], found["model"]["lora"]
    yield _table(
        model["name"],
        ["", ""],
        [
            ["made by", found["producer"]],
            ["compiled for", f"batch {model['batch']}, sequence {model['sequence']}, {model['activation']}"],
            ["vocabulary, width", f"{model['vocabulary']:,}, {model['hidden']:,}"],
            ["LoRA", f"rank {lora['rank']}, alpha {lora['alpha']:g}, on {', '.join(lora['target_modules'])}"],
            ["trainable numbers", f"{sum(t['rows'] * t['columns'] for t in found['trainables']):,}"],
            ["weights, mapped", _megabytes(found["weights_bytes"])],
        ],
    )
    yield _table("weights", ["storage", "tensors", "MB"], _by_storage(found["weights"]))
    yield _table(
        f"planned peak: {_megabytes(plan['peak_bytes'])}, with {plan['optimizer']}",
        ["what", "MB"],
        [["the runtime itself", _number(plan["process_bytes"])]]
        + [[buffer["name"], _number(buffer["bytes"])] for buffer in plan["buffers"]],
    )
    yield _table(
        "alive where scratch memory is fullest",
        ["value", "MB", "from"],
        [[buffer["name"], _number(buffer["bytes"]), buffer["source"]] for buffer in plan["at_peak"]],
    )
    yield _table(
        "blocks",
        ["block", "kind", "programs", "weights, MB", "trainable numbers"],
        [
            [
                block["name"],
                block["kind"],
                ", ".join(f"{use} {number}" for use, number in block["programs"].items()),
                _number(block["weight_bytes"]),
                f"{block['trainable_elements']:,}",
            ]
            for block in found["blocks"]
        ],
    )
    yield _table(
        "programs",
        ["", "program", "kernel calls", "loops", "scratch, MB"],
        [
            [
                str(number),
                program["name"],
                str(sum(program["kernels"].values())),
                ", ".join(f"{loop['domain']} by {loop['size']}" for loop in program["loops"]),
                _number(program["arena_bytes"]),
            ]
            for number, program in enumerate(found["programs"])
        ],
    )


def _by_storage(weights: Sequence[dict]) -> list[list[str]]:
    storages = dict.fromkeys(weight["storage"] for weight in weights)
    grouped = {storage: [weight["bytes"] for weight in weights if weight["storage"] == storage] for storage in storages}
    return [[storage, str(len(sizes)), _number(sum(sizes))] for storage, sizes in grouped.items()]


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[str, Table]:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(columns))
    for column in columns:
        is_number = "MB" in column or "number" in column or column in ("tensors", "kernel calls")
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return title, table


def _megabytes(count: int) -> str:
    return f"{_number(count)} MB"


def _number(count: int) -> str:
    return f"{count / 1e6:,.2f}"
