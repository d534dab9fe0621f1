# SPDX-License-Identifier: Apache-2.0
"""mebp eval NAME.mebp --data FILE [--adapter DIR]: loss and perplexity, or accuracy"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mebp.cli.connection import add_connection
from mebp.cli.session import add_adapter, add_bundle, add_machine, open_session
from mebp.words import counted

if TYPE_CHECKING:
    from mebp.session import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bundle(parser)
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FILE",
        help="the data to measure on, in a form that mebp train takes",
    )
    add_adapter(parser)
    add_machine(parser)
    add_connection(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    from mebp.data import load_dataset
    from mebp.data.sharing import Sharing
    from mebp.tasks import FILL_MASK
    from mebp.tokenizer import Tokenizer
    from mebp.training.evaluation import evaluate, perplexity

    session = open_session(arguments)
    if session.classes:
        return _classify(arguments, session)
    if session.task == FILL_MASK:
        return _fill(arguments, session)
    sharing = Sharing() if session.packs else None  # the same loss, sooner
    data = load_dataset(arguments.data, Tokenizer(arguments.bundle), session.max_sequence, sharing)
    loss = evaluate(session, data)
    found = {"loss": loss, "perplexity": perplexity(loss), "tokens": data.counted}
    line = f"loss {loss:.4f}  perplexity {found['perplexity']:.3f}  over {counted(data.counted, 'token')}"
    _report(arguments, found, [*data.notes, line])
    return 0


def _classify(arguments: argparse.Namespace, session: "Session") -> int:
    from mebp.tokenizer import Tokenizer
    from mebp.training.objectives import BY_TASK
    from mebp.training.objectives.classification import measure

    objective = BY_TASK[session.task]
    data = objective.load(arguments.data, Tokenizer(arguments.bundle), session.max_sequence, session.classes)
    found = measure(session, data)
    figures = {"loss": found.loss, "accuracy": found.metrics["accuracy"], f"{objective.counts}s": data.counted}
    line = f"loss {found.loss:.4f}  accuracy {figures['accuracy']:.4f}  over {counted(data.counted, objective.counts)}"
    _report(arguments, figures, [*data.notes, line])
    return 0


def _fill(arguments: argparse.Namespace, session: "Session") -> int:
    from mebp.data.masking import load_measured
    from mebp.tokenizer import Tokenizer
    from mebp.training.evaluation import evaluate, perplexity

    data = load_measured(arguments.data, Tokenizer(arguments.bundle), session.max_sequence, session.vocabulary)
    loss = evaluate(session, data)
    found = {"loss": loss, "perplexity": perplexity(loss), "tokens": data.counted}
    line = f"loss {loss:.4f}  perplexity {found['perplexity']:.3f}  over {counted(data.counted, 'masked token')}"
    _report(arguments, found, [*data.notes, line])
    return 0


def _report(arguments: argparse.Namespace, figures: Mapping[str, float], lines: Sequence[str]) -> None:
    print(json.dumps(figures) if arguments.json else "\n".join(lines))
