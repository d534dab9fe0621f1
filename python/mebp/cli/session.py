# SPDX-License-Identifier: Apache-2.0
"""A bundle and an adapter, as several commands take them, and the session of one that trains nothing."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mebp.cli.connection import connection
from mebp.shared_options import add_shared
from mebp.words import say

if TYPE_CHECKING:
    from mebp.data.sources import Source
    from mebp.session import Session

COLUMNS = "read columns of the data under other names, such as prompt=question,completion=answer"


def add_bundle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="NAME.mebp", help="the bundle that mebpc wrote")


def add_data(parser: argparse.ArgumentParser, help: str, required: bool = True) -> None:
    parser.add_argument("--data", type=Path, required=required, metavar="FILE", help=help)
    parser.add_argument("--columns", metavar="NAMES", help=COLUMNS)


def data_of(arguments: argparse.Namespace) -> "Source":
    """What --data names, with --columns."""
    from mebp.data.columns import Columns
    from mebp.data.sources import Source

    source = Source.of(arguments.data, Columns.read(arguments.columns))
    if source.hub and source.hub.note:
        say(source.hub.note, error=True)
    return source


def add_adapter(parser: argparse.ArgumentParser, required: bool = False) -> None:
    parser.add_argument(
        "--adapter",
        type=Path,
        required=required,
        metavar="DIR",
        help="use this PEFT adapter, such as mebp train writes",
    )


def add_machine(parser: argparse.ArgumentParser) -> None:
    add_shared(parser.add_argument, "threads", type=int)
    add_shared(parser.add_argument, "device", default="cpu")


def open_session(arguments: argparse.Namespace, generates: bool = False) -> "Session":
    """With the adapter that was named; for losses and logits, or where it `generates`, for no more than that needs."""
    import mebp
    from mebp.inspect import inspect
    from mebp.sequences import check_text

    # A bundle that was compiled without generation takes the logits of whole sequences.
    keeps = generates and inspect(arguments.bundle)["model"]["positions"] > 0
    session = mebp.Session(
        arguments.bundle,
        device=arguments.device,
        threads=arguments.threads,
        forward_only=not keeps,
        generate_only=keeps,
        stream=connection(arguments),
    )
    if generates:
        check_text(session)
    if arguments.adapter:
        session.load_adapter(arguments.adapter)
    return session
