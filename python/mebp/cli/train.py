# SPDX-License-Identifier: Apache-2.0
"""mebp train NAME.mebp --data FILE"""

import argparse
from dataclasses import MISSING, fields
from pathlib import Path

from mebp.cli.main import BY_SIGNAL
from mebp.errors import Error
from mebp.outputs import check_no_input
from mebp.training.options import ADAPTERS, TrainingOptions, option_kinds
from mebp.training.outputs import outputs_of
from mebp.training.schedule import SCHEDULES

DATA_FORMS = 'plain text, or JSON lines with "text", with "prompt" and "completion", or with "messages"'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # What is not given is left out: TrainingOptions has the defaults, and a file's options come in between.
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    add("bundle", type=Path, nargs="?", default=None, metavar="NAME.mebp")
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="YAML with these options by name, bundle too; what is given here wins",
    )
    add("--data", type=Path, metavar="FILE", help=DATA_FORMS)
    add("--steps", type=int, metavar="N", help="optimizer steps")
    add("--epochs", type=int, metavar="N", help="passes over the data (1, unless --steps is given)")
    add("--lr", type=float, metavar="X", help="the highest learning rate (2e-4)")
    add("--seed", type=int, metavar="N", help="of the data's order (0)")
    add("--optimizer", metavar="NAME", help="adamw, sgd or mezo (what the bundle was compiled for)")
    add("--weight-decay", type=float, metavar="X", help="(0)")
    add("--clip", type=float, metavar="X", help="the gradient's highest L2 norm (none)")
    add("--accumulate", type=int, metavar="N", help="batches an optimizer step, each token weighing the same (1)")
    add("--schedule", choices=SCHEDULES, help="of the learning rate (constant)")
    add("--warmup", type=int, metavar="N", help="steps of rising learning rate (0)")
    add("--eval", type=Path, metavar="FILE", help="other data to measure the loss on, as --data")
    add("--eval-every", type=int, metavar="N", help="steps between evaluations (once an epoch), besides the last step")
    add("--patience", type=int, metavar="N", help="stop after N evaluations without a lower loss (never)")
    add("--adapter", type=Path, metavar="DIR", help="a PEFT folder to go on from")
    add("--adapter-out", type=Path, metavar="DIR", help="where the PEFT adapter goes")
    add(
        "--keep",
        choices=ADAPTERS,
        help="which adapter: of the best evaluation, of the last step, or of every evaluation in DIR/step-N (last)",
    )
    add("--state", type=Path, metavar="DIR", help="where the run is kept, to resume from")
    add("--save-every", type=int, metavar="N", help="steps between saved states (50)")
    add("--resume", action="store_true", help="continue from --state")
    add("--overwrite", action="store_true", help="replace the state, adapter, log and picture of an earlier run")
    add("--log", type=Path, metavar="run.jsonl", help="one line of JSON a step, and one an evaluation")
    add("--plot", type=Path, metavar="run.png", help="the loss curve")
    add("--spill", type=Path, metavar="DIR", help="folder on a disk for checkpoints (where the plan spills: $TMPDIR)")
    add("--profile", type=Path, metavar="trace.json", help="every kernel call of the run, for ui.perfetto.dev")
    add("--threads", type=int, metavar="N", help="(all)")
    add("--device", metavar="NAME", help="cpu")
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
