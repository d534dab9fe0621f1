# SPDX-License-Identifier: Apache-2.0
"""mebp verify NAME.mebp [--reference DIR | --files]: gradients against an independent reference, or the files alone"""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from mebp.cli.connection import add_connection, connection
from mebp.cli.main import DISAGREES
from mebp.cli.session import add_adapter, add_bundle, add_machine
from mebp.tables import Table, megabytes
from mebp.waiting import waiting
from mebp.words import say

if TYPE_CHECKING:
    from mebp.verification.comparison import Comparison

_MOST_LINES = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    parser.add_argument(
        "--reference",
        metavar="DIR",
        help="take config.json from this model folder, or from a hub id (with @REVISION, too) that is in the cache "
        "(default: the bundle's)",
    )
    add_adapter(parser)
    parser.add_argument("--seq-len", type=int, metavar="N", help="tokens in a row (default: as compiled)")
    add_machine(parser)
    add_connection(parser)
    parser.add_argument(
        "--files",
        action="store_true",
        help="only compare the weights and the tokenizer's files with the checksums that mebpc left",
    )
    parser.add_argument("--json", action="store_true", help="print all errors as JSON")


def run(arguments: argparse.Namespace) -> int:
    import mebp

    if arguments.files:
        return _verify_files(arguments)
    connection(arguments)  # refuses a whole bundle; a half is refused in any case
    with waiting("computing in float64, which takes minutes for a real model"):
        comparison = mebp.verify(
            arguments.bundle,
            arguments.reference,
            adapter=arguments.adapter,
            seq_len=arguments.seq_len,
            device=arguments.device,
            threads=arguments.threads,
        )
    if arguments.json:
        beyond = [asdict(one) for one in comparison.beyond]
        say(_json({"agrees": comparison.agrees, "beyond": beyond, **asdict(comparison)}))
    else:
        say(_report(comparison))
        if comparison.note:
            say(f"mebp: note: {comparison.note}", error=True)
    return 0 if comparison.agrees else DISAGREES


def _verify_files(arguments: argparse.Namespace) -> int:
    import mebp

    for option in ("reference", "adapter", "seq_len"):
        if getattr(arguments, option) is not None:
            name = option.replace("_", "-")
            raise mebp.Error(f"--{name} is about gradients, which --files leaves alone; leave it out")
    size = mebp.verify_files(arguments.bundle)
    if arguments.json:
        say(json.dumps({"weights_bytes": size}))
    else:
        say(f"{arguments.bundle}: all files are as mebpc wrote them, {megabytes(size)} MB of weights")
    return 0


def _json(value: object) -> str:
    """With null for what is not finite, of which JSON knows nothing."""
    return json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None))


def _report(comparison: "Comparison") -> str:
    rows = [
        [name, *(f"{error:.1e}" for error in (errors.worst, errors.tail, errors.median, errors.loss))]
        for name, errors in (("the bundle", comparison.bundle), (f"torch in {comparison.precision}", comparison.torch))
    ]
    subspaces = f", {comparison.projected} in their subspaces" if comparison.projected else ""
    title = f"{len(comparison.bundle.gradients)} gradients{subspaces}, relative to float64 in transformers and PEFT"
    table = Table(title, ["", "worst", "95 %", "median", "loss"], rows)
    if comparison.agrees:
        sharper = "; a bundle of mebpc --precision f32 is compared more sharply"
        return f"{table}\nagrees{'' if comparison.precision == 'f32' else sharper}"
    shown, hidden = comparison.beyond[:_MOST_LINES], len(comparison.beyond) - _MOST_LINES
    lines = [f"  {one}" for one in shown] + [f"  and {hidden} more"] * (hidden > 0)
    return "\n".join([str(table), "disagrees:", *lines])
