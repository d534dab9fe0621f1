# SPDX-License-Identifier: Apache-2.0
"""mebp merge NAME.mebp --adapter DIR -o DIR"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mebp.cli.session import add_adapter, add_bundle
from mebp.cli.waiting import waiting
from mebp.element_types import ELEMENT_TYPES
from mebp.errors import Error

if TYPE_CHECKING:
    from mebp.recompiling import Recompiled


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    add_adapter(parser, required=True)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write, new or empty"
    )
    parser.add_argument(
        "--dtype",
        choices=list(ELEMENT_TYPES),
        default="f32",
        help="type of the merged weights (default: f32, which rounds nothing)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="data to measure on what compiling the merged model again loses (samples that the trained model writes)",
    )
    parser.add_argument("--no-measure", action="store_true", help="merge only: do not compile again to measure that")


def run(arguments: argparse.Namespace) -> int:
    import mebp

    if arguments.no_measure and arguments.data:
        raise Error("--data is for what --no-measure leaves out; give one of them")
    if arguments.data and not arguments.data.is_file():
        raise Error(f"--data {arguments.data}: no such file; check the path")
    result = mebp.merge(arguments.bundle, arguments.adapter, arguments.output, arguments.dtype)
    name, most = max(result.changes.items(), key=lambda change: change[1])
    print(
        f"the adapter changes {len(result.changes)} of {result.tensors} tensors of the bundle's dequantised weights, "
        f"by up to {most:.2%} of their norm ({name})"
    )
    if arguments.dtype != "f32":
        name, most = max(result.roundings.items(), key=lambda rounding: rounding[1])
        print(f"rounding to {arguments.dtype} changes a tensor by up to {most:.2%} of its norm ({name})")
    print(f"{arguments.output}: {result.bytes / 1e6:,.1f} MB, a folder for transformers", flush=True)
    if not arguments.no_measure:
        _measure(arguments)
    return 0


def _measure(arguments: argparse.Namespace) -> None:
    from mebp.recompiling import recompile

    try:
        with waiting("compiling the merged model again, to measure what that loses; --no-measure leaves it out"):
            found = recompile(arguments.bundle, arguments.adapter, arguments.output, arguments.data)
    except Error as error:  # what was asked for is there
        print(f"what compiling it again loses was not measured: {error}")
        return
    if found is not None:
        print(_report(found))


def _report(found: "Recompiled") -> str:
    losses = ", ".join(f"{loss:.4f} as {storage}" for storage, loss in found.merged.items())
    lines = [
        f"loss on {found.data}: {found.base:.4f} without the adapter, {found.trained:.4f} with it; "
        f"merged and compiled again: {losses}"
    ]
    own, advised = next(iter(found.merged)), found.advised
    again = f"compiled again with --weights {own}, it keeps"
    if found.gain <= 0:
        lines.append("the adapter lowers no loss there, so there is nothing to lose; give other --data")
    elif advised == own:
        lines.append(f"{again} the training")
    else:
        share = max(found.kept(own), 0)
        lines.append(f"{again} {share:.0%} of what was gained; take --weights {advised or 'f32'}, or leave it unmerged")
    return "\n".join(lines)
