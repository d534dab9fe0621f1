# SPDX-License-Identifier: Apache-2.0
"""The way from a device's half of a split model to its server, as several commands take it."""

import argparse
from pathlib import Path

from mebp.split import RETRY_SECONDS
from mebp.split_options import CONNECTION, open_stream


def add_connection(parser: argparse.ArgumentParser, trains: bool = False) -> None:
    group = parser.add_argument_group("of NAME.edge.mebp, a device's half of a split model")
    add = group.add_argument
    add("--connect", metavar="HOST:PORT", help="the layers are at this server, which runs mebp serve")
    add("--cert", type=Path, metavar="FILE", help="this device's certificate, such as client.pem of mebp certs")
    add("--key", type=Path, metavar="FILE", help="its key, such as client.key")
    add("--ca", type=Path, metavar="FILE", help="the authority that has signed the server's certificate: ca.pem")
    add(
        "--plain-text",
        action="store_true",
        help="neither encrypt nor check who is there, between addresses of one machine",
    )
    add(
        "--retry-for",
        type=float,
        metavar="SECONDS",
        help=f"try so long to reach a server that is gone (default: {RETRY_SECONDS:g})",
    )
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
