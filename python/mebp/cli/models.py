# SPDX-License-Identifier: Apache-2.0
"""mebp models [--json]"""

import argparse
import json
from dataclasses import asdict

from mebp.models import OUTCOMES, tried_models
from mebp.tables import Table
from mebp.words import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the same for programs")


def run(arguments: argparse.Namespace) -> int:
    models = tried_models()
    if arguments.json:
        say(json.dumps(asdict(models), indent=2))
        return 0
    rows = [[each.name, OUTCOMES[each.outcome], each.layers, each.reason] for each in models.types]
    say(Table(models.summary(), ["type", "outcome", "layers tried", "why"], rows))
    return 0
