# SPDX-License-Identifier: Apache-2.0
"""mebp parity NAME.mebp --devices cpu,mlx: one step on each"""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from mebp.cli.main import DISAGREES
from mebp.cli.session import add_adapter, add_bundle
from mebp.shared_options import add_shared
from mebp.tables import Table, megabytes
from mebp.waiting import waiting
from mebp.words import say

if TYPE_CHECKING:
    from mebp.device_parity.comparison import Parity

_MOST_LINES = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    parser.add_argument(
        "--devices",
        default="cpu,mlx",
        metavar="NAMES",
        help="the devices, of which the others are compared with the first (default: cpu,mlx)",
    )
    add_adapter(parser)
    parser.add_argument("--seq-len", type=int, metavar="N", help="tokens in a row (default: as compiled)")
    add_shared(parser.add_argument, "threads", type=int)
    parser.add_argument("--json", action="store_true", help="print all errors as JSON")


def run(arguments: argparse.Namespace) -> int:
    import mebp

    names = [name.strip() for name in arguments.devices.split(",") if name.strip()]
    with waiting(f"taking a step on {', '.join(names)}"):
        found = mebp.parity(
            arguments.bundle, names, adapter=arguments.adapter, seq_len=arguments.seq_len, threads=arguments.threads
        )
    say(json.dumps(_described(found)) if arguments.json else _report(found))
    return 0 if found.agrees else DISAGREES


def _described(found: "Parity") -> dict:
    errors = {name: asdict(one) for name, one in found.errors.items()}
    steps = [
        {
            "device": step.device,
            "kernels": step.kernels,
            "loss": step.loss,
            "seconds": step.seconds,
            "peak_bytes": step.peak_bytes,
            "errors": errors.get(step.device),
        }
        for step in found.steps
    ]
    beyond = [asdict(one) for one in found.beyond]
    return {"agrees": found.agrees, "precision": found.precision, "devices": steps, "beyond": beyond}


def _report(found: "Parity") -> str:
    errors = found.errors
    rows = []
    for step in found.steps:
        own = errors.get(step.device)
        apart = [f"{error:.1e}" for error in (own.worst, own.median, own.loss)] if own else ["", "", ""]
        rows.append([step.device, f"{step.loss:.6f}", *apart, f"{step.seconds:.3f}", megabytes(step.peak_bytes)])
    first = found.steps[0]
    title = f"one step in {found.precision}, {len(first.gradients)} gradients, relative to {first.device}"
    table = Table(title, ["device", "loss", "worst", "median", "of the loss", "seconds", "MB"], rows)
    if found.agrees:
        return f"{table}\nagrees"
    shown, hidden = found.beyond[:_MOST_LINES], len(found.beyond) - _MOST_LINES
    lines = [f"  {one}" for one in shown] + [f"  and {hidden} more"] * (hidden > 0)
    return "\n".join([str(table), "disagrees:", *lines])
