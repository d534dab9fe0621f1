# SPDX-License-Identifier: Apache-2.0
"""The way from a device's half of a split model to its server, as several commands take it."""

import argparse
from pathlib import Path

from mebp.shared_options import add_shared
from mebp.split_options import CONNECTION, open_stream


def add_connection(parser: argparse.ArgumentParser, trains: bool = False) -> None:
    group = parser.add_argument_group("of NAME.edge.mebp, a device's half of a split model")
    add = group.add_argument
    add_shared(add, "connect")
    for file in ("cert", "key", "ca"):
        add_shared(add, file, type=Path)
    add_shared(add, "plain-text")
    add_shared(add, "retry-for", type=float)
    if trains:
        add(
            "--in-flight",
            type=int,
            metavar="N",
            help="batches of --accumulate that are under way at once: one is computed while others wait for the server "
            "(default: 1)",
        )


def connection(arguments: argparse.Namespace) -> object | None:
    """What mebp.Session takes as its `stream`; None where no server was named."""
    return open_stream(arguments.bundle, **{name: getattr(arguments, name) for name in CONNECTION})
