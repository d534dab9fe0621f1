# SPDX-License-Identifier: Apache-2.0
"""mebp train MODEL --data FILE"""

import argparse
from pathlib import Path

from mebp.cli.connection import add_connection
from mebp.cli.main import BY_SIGNAL
from mebp.cli.session import DEVICE
from mebp.compile_options import compile_option_helps, flag
from mebp.outputs import check_no_input
from mebp.training.objective_options import objective_helps, objective_kinds
from mebp.training.options import ADAPTERS, convert
from mebp.training.outputs import outputs_of
from mebp.training.schedule import SCHEDULES

DATA_FORMS = "the training data: plain text, JSON lines or a JSON array; docs/training.md lists the forms"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # What is not given is left out: TrainingOptions has the defaults, and a file's options come in between.
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    add(
        "bundle",
        type=Path,
        nargs="?",
        default=None,
        metavar="MODEL",
        help="a Hugging Face folder, a hub id or packaged:smollm2, which is exported and compiled first; or a bundle",
    )
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="read options from this YAML file, by their names here; the command line wins",
    )
    add = parser.add_argument_group("what it learns from, and how").add_argument
    add("--data", type=Path, metavar="FILE", help=DATA_FORMS)
    add(
        "--task",
        metavar="NAME",
        help="causal, to predict the next token, or of an encoder classify, to tell texts apart, token-classify, their "
        "words, or fill-mask, to predict masked tokens (default: causal, or as the bundle does)",
    )
    add(
        "--mask-probability",
        type=float,
        metavar="X",
        help="share of the tokens that --task fill-mask predicts (default: 0.15)",
    )
    add(
        "--objective",
        metavar="NAME",
        help="sft, dpo with pairs of which one is preferred, grpo or ppo with rewards (default: sft)",
    )
    add(
        "--packing",
        action=argparse.BooleanOptionalAction,
        help="put several prompts or conversations into one row, each with attention of its own (default: where the "
        "bundle can)",
    )
    add = parser.add_argument_group("how long").add_argument
    add("--steps", type=int, metavar="N", help="train for N optimizer steps")
    add("--epochs", type=int, metavar="N", help="train for N passes over the data (default: 1, without --steps)")
    add("--seed", type=int, metavar="N", help="seed for the order of the data (default: 0)")
    add = parser.add_argument_group("the optimizer").add_argument
    add("--lr", type=float, metavar="X", help="learning rate, the highest that the schedule reaches (default: 2e-4)")
    add(
        "--optimizer",
        metavar="NAME",
        help="adamw, sgd, lion, adamw8bit, galore, qgalore or mezo (default: as compiled)",
    )
    add("--weight-decay", type=float, metavar="X", help="decoupled weight decay (default: 0)")
    add("--betas", metavar="X,Y", help="AdamW's betas (default: 0.9,0.999), or Lion's (default: 0.9,0.99)")
    add("--eps", type=float, metavar="X", help="what AdamW divides by at least (default: 1e-8)")
    add("--momentum", type=float, metavar="X", help="SGD's momentum (default: as compiled)")
    add("--galore-scale", type=float, metavar="X", help="what GaLore's updates are multiplied with (default: 0.25)")
    add(
        "--galore-update-interval",
        type=int,
        metavar="N",
        help="steps after which GaLore looks for its subspaces anew (default: 200)",
    )
    add("--galore-refresh", metavar="HOW", help="find them by sketch, or exactly by svd, slowly (default: sketch)")
    add(
        "--galore-cos-threshold",
        type=float,
        metavar="X",
        help="similarity of subspaces from which on Q-GaLore looks for them half as often (default: 0.4)",
    )
    add("--clip", type=float, metavar="X", help="clip gradients to this L2 norm (default: no clipping)")
    add("--clip-recompute", action="store_true", help="clip by computing gradients twice, which keeps none of them")
    add(
        "--accumulate",
        type=int,
        metavar="N",
        help="batches per optimizer step; every token counts the same (default: 1)",
    )
    add("--schedule", choices=SCHEDULES, help="how the learning rate changes over the run (default: constant)")
    add("--warmup", type=int, metavar="N", help="raise the learning rate over the first N steps (default: 0)")
    add = parser.add_argument_group("evaluation").add_argument
    add("--eval", type=Path, metavar="FILE", help="measure the loss on this data, too")
    add(
        "--eval-every", type=int, metavar="N", help="evaluate every N steps and after the last (default: once an epoch)"
    )
    add("--test", type=Path, metavar="FILE", help="measure the loss on this data once, at the end")
    add("--patience", type=int, metavar="N", help="stop after N evaluations without a lower loss (default: never)")
    add = parser.add_argument_group("files").add_argument
    add("--adapter", type=Path, metavar="DIR", help="continue from this PEFT adapter")
    add("--adapter-out", type=Path, metavar="DIR", help="write the PEFT adapter to this folder")
    add("--model-out", type=Path, metavar="DIR", help="write the model to this folder, if its own weights are trained")
    add(
        "--keep",
        choices=ADAPTERS,
        help="keep the adapter or model of the best evaluation, of the last step or of all (default: last)",
    )
    add("--state", type=Path, metavar="DIR", help="keep the state of the run in this folder, for --resume")
    add("--save-every", type=int, metavar="N", help="save the state every N steps (default: 50)")
    add(
        "--pause-on",
        metavar="SIGNAL",
        help="at SIGUSR1 or SIGUSR2, save the state and free the memory; go on at the next one, or at SIGCONT",
    )
    add("--resume", action="store_true", help="continue the run in --state")
    add("--overwrite", action="store_true", help="replace the state, adapter, model, log and picture of an earlier run")
    add(
        "--log",
        type=Path,
        metavar="run.jsonl",
        help="log each step and evaluation as a line of JSON; of a table, if the name ends in .csv",
    )
    add("--plot", type=Path, metavar="run.png", help="draw the loss curve; --adapter-out DIR has one in any case")
    add("--report-to", metavar="NAMES", help="report to tensorboard, wandb or trackio, or several with commas")
    add = parser.add_argument_group("this machine").add_argument
    add(
        "--spill",
        type=Path,
        metavar="DIR",
        help="keep checkpoints in a file in this folder, on a disk (default: $TMPDIR, if the plan spills)",
    )
    add("--profile", type=Path, metavar="trace.json", help="record every kernel call, for ui.perfetto.dev")
    add("--threads", type=int, metavar="N", help="CPU threads to use (default: all)")
    add("--device", metavar="NAME", help=DEVICE)
    add_connection(parser, trains=True)
    of_objective = parser.add_argument_group("options of --objective, by TRL's names")
    of_objective.add_argument(
        "--reference", metavar="WHAT", help="base, initial, a PEFT folder or a file of its log-probabilities"
    )
    of_objective.add_argument(
        "--reward",
        action="append",
        metavar="WHAT",
        help="MODULE:FUNCTION as TRL has it, a command that reads and writes JSON lines, or NAME.mebp; also several",
    )
    of_objective.add_argument(
        "--rollouts", type=Path, metavar="FILE", help="train on completions that were written elsewhere, as data"
    )
    kinds = objective_kinds()
    for name, value, help in objective_helps():
        how = {"type": kinds[name], "metavar": value} if value else {"action": argparse.BooleanOptionalAction}
        of_objective.add_argument(flag(name), **how, help=help)
    compiling = parser.add_argument_group("options of mebpc, for a model")
    for name, kind, value, help in compile_option_helps():
        how = {"action": "store_true"} if kind is bool else {"type": kind, "metavar": value}
        compiling.add_argument(flag(name), **how, help=help)


def run(arguments: argparse.Namespace) -> int:
    given = {name: value for name, value in vars(arguments).items() if name != "command" and value is not None}
    if "betas" in given:
        given["betas"] = convert("--betas", given["betas"], tuple)
    file = given.pop("config", None)

    from mebp.training.request import Request

    request = Request.of({**_from_file(file), **given})
    for option, path in outputs_of(request.training).items():
        check_no_input(option, path, {"--config": file})

    stopped_by = request.run().signal
    return 0 if stopped_by is None else BY_SIGNAL + stopped_by


def _from_file(file: Path | None) -> dict[str, object]:
    if file is None:
        return {}
    from mebp.training.config import read_config
    from mebp.training.request import request_kinds

    return read_config(file, request_kinds())
