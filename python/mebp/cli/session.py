# SPDX-License-Identifier: Apache-2.0
"""A model and an adapter, as several commands take them, and the session of one that trains nothing."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mebp.cli.connection import connection
from mebp.compile_options import CompileOptions, compile_option_helps, compile_option_kinds, flag
from mebp.shared_options import add_shared
from mebp.words import say

if TYPE_CHECKING:
    from mebp.data.sources import Source
    from mebp.session import Session

COLUMNS = "read columns by other names, as in prompt=question,completion=answer"


def add_bundle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="NAME.mebp", help="the bundle that mebpc wrote")


def add_model(parser: argparse.ArgumentParser, also: str = "") -> None:
    """What mebp train took, or what it has left: `use` makes a bundle and an adapter of it. `also`: what --base is for
    besides."""
    parser.add_argument(
        "bundle",
        type=Path,
        metavar="MODEL",
        help="the folder of an adapter that mebp train wrote; or what it took: a Hugging Face folder, a hub id, "
        "a GGUF file, ollama:NAME, hub:OWNER/NAME:Q4_K_M, packaged:smollm2 or a bundle",
    )
    parser.add_argument(
        "--base",
        metavar="MODEL",
        help="of an adapter's folder: the model or the bundle that it was trained on (default: what it was trained on "
        f"here){also}",
    )


def add_compiling(add: Callable[..., argparse.Action]) -> None:
    """The options of mebpc that make a bundle of a model."""
    for name, kind, value, help in compile_option_helps():
        how = {"action": "store_true"} if kind is bool else {"type": kind, "metavar": value}
        add(flag(name), **how, help=help)


def use(arguments: argparse.Namespace, data: "Source | None" = None) -> None:
    """Puts the bundle and the adapter that were meant into the arguments; `data` is what a new bundle has room for."""
    from mebp.building.using import find_used

    values = {name: getattr(arguments, name) for name in compile_option_kinds()}
    given = {name: None if value is False else value for name, value in values.items()}  # what is on or off by itself
    named = arguments.bundle, arguments.adapter, arguments.base, CompileOptions(**given)
    arguments.bundle, arguments.adapter = find_used(*named, data)


def add_counting(add: Callable[..., argparse.Action]) -> None:
    """The options that say what of a sample counts in the loss (mebp.data.counting)."""
    add(
        "--loss-on",
        metavar="WHAT",
        help="what of a conversation is learned: assistant, all of its turns; last, the last of them; turns, each as a "
        "sample of its own, as it is asked for; all, every token (default: assistant)",
    )
    add(
        "--turn-weights",
        action="store_true",
        help='multiply the loss of turns and samples by their "weight", any number of at least 0',
    )
    add(
        "--empty-thoughts",
        metavar="WHAT",
        help="skip or learn a thought without a word before an answer (default: skip)",
    )


def add_data(parser: argparse.ArgumentParser, help: str, required: bool = True) -> None:
    parser.add_argument("--data", type=Path, required=required, metavar="FILE", help=help)
    parser.add_argument("--columns", metavar="NAMES", help=COLUMNS)


def data_of(arguments: argparse.Namespace) -> "Source":
    """What --data names, with --columns, and with what counts of it where the command has options for that."""
    from mebp.data.columns import Columns
    from mebp.data.counting import Counting
    from mebp.data.sources import Source

    named = (getattr(arguments, name, None) for name in ("loss_on", "turn_weights", "empty_thoughts"))
    source = Source.of(arguments.data, Columns.read(arguments.columns), counting=Counting.read(*named))
    if source.hub and source.hub.note:
        say(source.hub.note, error=True)
    return source


def add_adapter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--adapter",
        type=Path,
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
