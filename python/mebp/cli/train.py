# SPDX-License-Identifier: Apache-2.0
"""mebp train NAME.mebp --data FILE"""

import argparse
from dataclasses import fields
from pathlib import Path

from mebp.errors import Error
from mebp.training.options import TrainingOptions
from mebp.training.schedule import SCHEDULES

FORMS = 'plain text, or JSON lines with "text", with "prompt" and "completion", or with "messages"'

# Announced by the interface and not in this build: refused, never ignored.
_ABSENT = ("--clip", "--accumulate", "--eval", "--eval-every", "--model-out")
_ABSENT_OPTIMIZERS = ("mezo", "galore", "qgalore")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="NAME.mebp")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FILE", help=FORMS
    )
    parser.add_argument("--steps", type=int, metavar="N")
    parser.add_argument("--epochs", type=int, metavar="N", help="passes over the data (1, unless --steps is given)")
    parser.add_argument("--lr", type=float, default=2e-4, metavar="X", help="the highest learning rate (2e-4)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the data's order (0)")
    parser.add_argument("--optimizer", metavar="NAME", help="adamw or sgd (what the bundle was compiled for)")
    parser.add_argument("--weight-decay", type=float, default=0.0, metavar="X", help="(0)")
    parser.add_argument("--schedule", choices=SCHEDULES, default="constant", help="of the learning rate (constant)")
    parser.add_argument("--warmup", type=int, default=0, metavar="N", help="steps of rising learning rate (0)")
    parser.add_argument("--adapter-out", type=Path, metavar="DIR", help="where the PEFT adapter goes")
    parser.add_argument("--state", type=Path, metavar="DIR", help="where the run is kept, to resume from")
    parser.add_argument("--save-every", type=int, default=50, metavar="N", help="steps between saved states (50)")
    parser.add_argument("--resume", action="store_true", help="continue from --state")
    parser.add_argument("--log", type=Path, metavar="run.jsonl", help="one line of JSON a step")
    parser.add_argument("--plot", type=Path, metavar="run.png", help="the loss curve")
    parser.add_argument("--threads", type=int, metavar="N", help="(all)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu")
    for option in _ABSENT:
        parser.add_argument(option, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    for option in _ABSENT:
        if getattr(arguments, option[2:].replace("-", "_")) is not None:
            raise Error(f"{option} is not in this build; leave it out")
    if arguments.optimizer in _ABSENT_OPTIMIZERS:
        raise Error(f"--optimizer {arguments.optimizer} is not in this build; choose adamw or sgd")
    given = {field.name: getattr(arguments, field.name) for field in fields(TrainingOptions)}
    options = TrainingOptions(**given)

    from mebp.training.loop import train

    return train(options)
