# SPDX-License-Identifier: Apache-2.0
"""mebp audit NAME.edge.mebp"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from mebp.cli.session import add_adapter
from mebp.errors import Error
from mebp.shared_options import add_shared
from mebp.tables import Table
from mebp.words import say

if TYPE_CHECKING:
    import numpy as np

    from mebp.audit import Attack, Audit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="NAME.edge.mebp", help="the device's half of a split model")
    parser.add_argument(
        "--cloud", type=Path, metavar="NAME.cloud.mebp", help="the server's half (default: the one beside the device's)"
    )
    parser.add_argument("--text", type=Path, metavar="FILE", help="try it on this text (default: random tokens)")
    add_adapter(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of random tokens and adapters (default: 0)")
    add_shared(parser.add_argument, "threads", type=int)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(arguments: argparse.Namespace) -> int:
    from mebp.audit import audit

    found = audit(
        arguments.bundle,
        arguments.cloud,
        ids=_read(arguments) if arguments.text else None,
        adapter=arguments.adapter,
        seed=arguments.seed,
        threads=arguments.threads,
    )
    say(json.dumps(found.as_json(), indent=2) if arguments.json else f"{_table(found)}\n\n{_meaning(found)}")
    return 0


def _read(arguments: argparse.Namespace) -> "np.ndarray":
    import numpy as np

    from mebp.inspect import inspect
    from mebp.tokenizer import Tokenizer

    try:
        text = arguments.text.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Error(f"{arguments.text}: is not UTF-8 at byte {error.start}; convert it") from error
    ids = Tokenizer(arguments.bundle).encode_document(text)
    return np.array([ids[: inspect(arguments.bundle)["model"]["sequence"]]], np.int32)


def _table(found: "Audit") -> Table:
    title = (
        f"what a curious server finds in what crosses for {found.tokens:,} tokens, with the first "
        f"{found.first_layers} and the last {found.last_layers} layers on the device"
    )
    rows = [[attack.what, _rate(attack), f"{attack.found:,} of {attack.of:,}", _by(attack)] for attack in found.attacks]
    return Table(title, ["", "found", "", "by"], rows)


def _rate(attack: "Attack") -> str:
    return "not tried" if attack.rate is None else f"{attack.rate:.1%}"


def _by(attack: "Attack") -> str:
    return f"{attack.by} ({attack.note})" if attack.note else attack.by


def _meaning(found: "Audit") -> str:
    known = [attack.what for attack in found.attacks if attack.rate is not None and attack.rate > 0.9]
    read = f"A server that keeps what crosses has {', '.join(known)}" if known else "These attacks find little"
    return (
        f"{read}; what it has not here, attacks that optimise may still find (docs/private-lora.md), so split a model "
        "only with a server that you trust."
    )
