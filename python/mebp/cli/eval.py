# SPDX-License-Identifier: Apache-2.0
"""mebp eval MODEL --data FILE [--adapter DIR]: loss and perplexity, or accuracy"""

import argparse
import json

from mebp.cli.connection import add_connection
from mebp.cli.session import (
    add_adapter,
    add_compiling,
    add_counting,
    add_data,
    add_machine,
    add_model,
    data_of,
    open_session,
    use,
)
from mebp.errors import Error
from mebp.words import counted, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    add_data(parser, "the data to measure on, in a form that mebp train takes")
    add_counting(parser.add_argument)
    add_adapter(parser)
    add_machine(parser)
    add_connection(parser)
    add_compiling(parser.add_argument_group("options of mebpc, for a model").add_argument)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    from mebp.data.loading import check_counting
    from mebp.tasks import CAUSAL
    from mebp.tokenizer import Tokenizer
    from mebp.training.evaluation import perplexity
    from mebp.training.objectives import objective_of_task

    given = data_of(arguments)
    use(arguments, given)
    session = open_session(arguments)
    objective = objective_of_task(session.task)
    if session.task != CAUSAL and (option := next(iter(given.counting.asked), None)):
        raise Error(f"{option} says what of answers counts, and {arguments.bundle} is for another task; leave it out")
    check_counting([given])
    data = objective.load_measured(given, Tokenizer(arguments.bundle), session)
    found = objective.measure_data(session, data)
    said = {"loss": f"{found.loss:.4f}"} | {name: f"{value:.4f}" for name, value in found.metrics.items()}
    figures = {"loss": found.loss, **found.metrics}
    if objective.has_perplexity:
        figures["perplexity"] = perplexity(found.loss)
        said["perplexity"] = f"{figures['perplexity']:.3f}"
    figures[f"{objective.counts.split()[-1]}s"] = data.counted
    line = "  ".join(f"{name} {value}" for name, value in said.items())
    lines = [*data.notes, f"{line}  over {counted(data.counted, objective.counts)}"]
    say(json.dumps(figures) if arguments.json else "\n".join(lines))
    return 0
