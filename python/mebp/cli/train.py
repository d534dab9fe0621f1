# SPDX-License-Identifier: Apache-2.0
"""mebp train NAME.mebp --data FILE"""

import argparse
from dataclasses import MISSING, fields
from pathlib import Path

from mebp.cli.main import BY_SIGNAL
from mebp.cli.session import DEVICE
from mebp.errors import Error
from mebp.outputs import check_no_input
from mebp.training.options import ADAPTERS, TrainingOptions, option_kinds
from mebp.training.outputs import outputs_of
from mebp.training.schedule import SCHEDULES

DATA_FORMS = "the training data: plain text, JSON lines or a JSON array; docs/training.md lists the forms"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # What is not given is left out: TrainingOptions has the defaults, and a file's options come in between.
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    add("bundle", type=Path, nargs="?", default=None, metavar="NAME.mebp", help="the bundle that mebpc wrote")
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="read options from this YAML file, by their names here; the command line wins",
    )
    add("--data", type=Path, metavar="FILE", help=DATA_FORMS)
    add("--steps", type=int, metavar="N", help="train for N optimizer steps")
    add("--epochs", type=int, metavar="N", help="train for N passes over the data (default: 1, without --steps)")
    add("--lr", type=float, metavar="X", help="learning rate, the highest that the schedule reaches (default: 2e-4)")
    add("--seed", type=int, metavar="N", help="seed for the order of the data (default: 0)")
    add("--optimizer", metavar="NAME", help="adamw, sgd or mezo (default: as compiled)")
    add("--weight-decay", type=float, metavar="X", help="decoupled weight decay (default: 0)")
    add("--clip", type=float, metavar="X", help="clip gradients to this L2 norm (default: no clipping)")
    add(
        "--accumulate",
        type=int,
        metavar="N",
        help="batches per optimizer step; every token counts the same (default: 1)",
    )
    add("--schedule", choices=SCHEDULES, help="how the learning rate changes over the run (default: constant)")
    add("--warmup", type=int, metavar="N", help="raise the learning rate over the first N steps (default: 0)")
    add("--eval", type=Path, metavar="FILE", help="measure the loss on this data, too")
    add(
        "--eval-every", type=int, metavar="N", help="evaluate every N steps and after the last (default: once an epoch)"
    )
    add("--patience", type=int, metavar="N", help="stop after N evaluations without a lower loss (default: never)")
    add("--adapter", type=Path, metavar="DIR", help="continue from this PEFT adapter")
    add("--adapter-out", type=Path, metavar="DIR", help="write the PEFT adapter to this folder")
    add(
        "--keep",
        choices=ADAPTERS,
        help="keep the adapter of the best evaluation, of the last step or of all evaluations (default: last)",
    )
    add("--state", type=Path, metavar="DIR", help="keep the state of the run in this folder, for --resume")
    add("--save-every", type=int, metavar="N", help="save the state every N steps (default: 50)")
    add("--resume", action="store_true", help="continue the run in --state")
    add("--overwrite", action="store_true", help="replace the state, adapter, log and picture of an earlier run")
    add("--log", type=Path, metavar="run.jsonl", help="log each step and evaluation as a line of JSON")
    add("--plot", type=Path, metavar="run.png", help="draw the loss curve")
    add(
        "--spill",
        type=Path,
        metavar="DIR",
        help="keep checkpoints in a file in this folder, on a disk (default: $TMPDIR, if the plan spills)",
    )
    add("--profile", type=Path, metavar="trace.json", help="record every kernel call, for ui.perfetto.dev")
    add("--threads", type=int, metavar="N", help="CPU threads to use (default: all)")
    add("--device", metavar="NAME", help=DEVICE)
    add("--model-out", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    given = {name: value for name, value in vars(arguments).items() if name != "command" and value is not None}
    if "model_out" in given:
        raise Error("--model-out is not in this build; leave it out")
    file = given.pop("config", None)
    options = _training_options({**_from_file(file), **given})

    from mebp.training.loop import train

    for option, path in outputs_of(options).items():
        check_no_input(option, path, {"--config": file})

    stopped_by = train(options).signal
    return 0 if stopped_by is None else BY_SIGNAL + stopped_by


def _from_file(file: Path | None) -> dict[str, object]:
    if file is None:
        return {}
    from mebp.training.config import read_config

    return read_config(file, option_kinds())


def _training_options(given: dict[str, object]) -> TrainingOptions:
    required = {"bundle": "NAME.mebp", "data": "--data FILE"}
    missing = [required[field.name] for field in fields(TrainingOptions)
               if field.default is MISSING and field.name not in given]  # fmt: skip
    if missing:
        raise Error(f"{' and '.join(missing)} must be given, here or in --config; see mebp train --help")
    return TrainingOptions(**given)
