# SPDX-License-Identifier: Apache-2.0
"""mebp certs DIR"""

import argparse
from pathlib import Path

from mebp.words import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="where to write the five files")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name or an address by which devices reach the server, beside localhost; several: repeat it",
    )
    parser.add_argument("--days", type=int, default=365, metavar="N", help="how long they are valid (default: 365)")
    parser.add_argument("--overwrite", action="store_true", help="replace files of these names that are there")


def run(arguments: argparse.Namespace) -> int:
    from mebp.certificates import make_certificates

    made = make_certificates(arguments.folder, arguments.host, arguments.days, arguments.overwrite)
    say(f"{arguments.folder}: {', '.join(made.files)}")
    say(f"the server's is for {', '.join(made.hosts)}; all are valid until {made.until}")
    say("the authority's key was not kept: for another device or server, make all of them anew")
    return 0
