# SPDX-License-Identifier: Apache-2.0
"""mebp merge NAME.mebp --adapter DIR -o DIR"""

import argparse
from pathlib import Path

from mebp.cli.session import add_adapter, add_bundle
from mebp.element_types import ELEMENT_TYPES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    add_adapter(parser, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="a new folder")
    parser.add_argument(
        "--dtype", choices=list(ELEMENT_TYPES), default="f32", help="of the merged weights (f32: nothing is rounded)"
    )


def run(arguments: argparse.Namespace) -> int:
    import mebp

    result = mebp.merge(arguments.bundle, arguments.adapter, arguments.output, arguments.dtype)
    name, most = max(result.changes.items(), key=lambda change: change[1])
    print(
        f"the adapter changes {len(result.changes)} of {result.tensors} tensors of the bundle's dequantised weights, "
        f"by up to {most:.2%} of their norm ({name})"
    )
    if arguments.dtype != "f32":
        name, most = max(result.roundings.items(), key=lambda rounding: rounding[1])
        print(f"rounding to {arguments.dtype} changes a tensor by up to {most:.2%} of its norm ({name})")
    print(f"{arguments.output}: {result.bytes / 1e6:,.1f} MB, a folder for transformers")
    return 0
