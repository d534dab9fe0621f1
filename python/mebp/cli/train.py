# SPDX-License-Identifier: Apache-2.0
"""mebp train MODEL --data FILE"""

import argparse
import signal
from collections.abc import Callable, Collection
from pathlib import Path

from mebp.cli.connection import add_connection
from mebp.cli.main import BY_SIGNAL, DISAGREES
from mebp.cli.session import COLUMNS, add_compiling, add_counting
from mebp.compile_options import flag, refuse_of_mebpc
from mebp.distributed.choices import REDUCTIONS, SHARDS
from mebp.distributed.launched import is_launched
from mebp.extension import load_runtime
from mebp.objective_traits import SFT, objectives
from mebp.outputs import check_no_input
from mebp.session_options import optimizer_option_kinds
from mebp.shared_options import add_shared
from mebp.training.objective_options import PARTS, objective_helps, objective_kinds, owners_of
from mebp.training.options import ADAPTERS, convert
from mebp.training.outputs import outputs_of
from mebp.training.schedule import SCHEDULES
from mebp.words import say

# What --help shows: what one needs to train on text.
FIRST = (
    *("data", "columns", "eval", "epochs", "steps", "batch", "accumulate", "seq-len", "lr", "schedule", "warmup"),
    *("optimizer", "lora-rank", "weights", "memory-budget", "adapter", "adapter-out", "state", "resume", "overwrite"),
    *("log", "seed", "help"),
)
OTHERS = "preferences and rewards (--objective), encoders, optimizers, whole models, this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    # What is not given is left out: TrainingOptions has the defaults, and a file's options come in between.
    parser.argument_default = argparse.SUPPRESS
    parser.refuse_elsewhere = refuse_of_mebpc
    parser.add_argument(
        "bundle",
        type=Path,
        nargs="?",
        default=None,
        metavar="MODEL",
        help="a Hugging Face folder, a hub id, a GGUF file, ollama:NAME, hub:OWNER/NAME:Q4_K_M, packaged:smollm2 "
        "or a bundle",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="read options from this YAML file, by their names here; the command line wins",
    )
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="let --config run code: rewards that are Python functions or commands",
    )
    _add_data(parser.add_argument_group("what it learns from, and how").add_argument)
    _add_length(parser.add_argument_group("how long").add_argument)
    _add_optimizer(parser.add_argument_group("the optimizer").add_argument)
    _add_evaluation(parser.add_argument_group("evaluation").add_argument)
    _add_files(parser.add_argument_group("files").add_argument)
    add_compiling(parser.add_argument_group("the model and its adapters, where MODEL is not a bundle").add_argument)
    _add_machine(parser.add_argument_group("this machine").add_argument)
    _add_objectives(parser)
    add_connection(parser, trains=True)
    parser.begin_with(FIRST, OTHERS)


def _add_data(add: Callable) -> None:
    add(
        "--data",
        action="append",
        metavar="FILE",
        help="text, JSON lines, CSV, parquet, or a folder of these (docs/data.md); also several, FILE:0.2 with its "
        "share of an epoch",
    )
    add("--columns", metavar="NAMES", help=COLUMNS)
    add_counting(add)
    add(
        "--task",
        metavar="NAME",
        help="causal, to predict the next token, or of an encoder classify, to tell texts apart, token-classify, their "
        "words, or fill-mask, to predict masked tokens (default: causal, or as the bundle does)",
    )
    add(
        "--train-tokens",
        action="append",
        metavar="LIST",
        help="add these tokens, with commas between them, to MODEL's vocabulary, and train their rows beside LoRA; "
        "all: every row that it has",
    )
    add(
        "--mask-probability",
        type=float,
        metavar="X",
        help="share of the tokens that --task fill-mask predicts (default: 0.15)",
    )
    sources = "; ".join(f"{name}, {traits.data}" for name, traits in objectives().items())
    add(
        "--objective",
        metavar="NAME",
        help=f"what to learn from: {sources} (default: {SFT})",
    )
    add(
        "--packing",
        action=argparse.BooleanOptionalAction,
        help="put several prompts or conversations into one row, each with attention of its own (default: where the "
        "bundle can)",
    )


def _add_length(add: Callable) -> None:
    add("--steps", type=int, metavar="N", help="train for N optimizer steps")
    add(
        "--epochs",
        type=int,
        metavar="N",
        help="train for N passes over the data (default, without --steps: of text and of texts with classes, 3 to 10 "
        "that make 200 steps, up to 3,000; else 1)",
    )
    add("--seed", type=int, metavar="N", help="seed for the order of the data (default: 0)")


def _add_optimizer(add: Callable) -> None:
    add_shared(add, "lr", type=float)
    add("--embedding-lr", type=float, metavar="X", help="that of new tokens, or of a whole embedding (default: --lr)")
    names = ", ".join(name for name, _ in load_runtime().optimizers())
    add("--optimizer", metavar="NAME", help=f"{names} (default: as compiled)")
    add_shared(add, "weight-decay", type=float)
    for name, kind in optimizer_option_kinds().items():
        add_shared(add, flag(name)[2:], **({"type": kind} if kind in (int, float) else {}))
    add("--clip", type=float, metavar="X", help="clip gradients to this L2 norm (default: no clipping)")
    add("--clip-recompute", action="store_true", help="clip by computing gradients twice, which keeps none of them")
    add(
        "--accumulate",
        type=int,
        metavar="N",
        help="batches, pairs or prompts per optimizer step (default: 1)",
    )
    add(
        "--interface",
        metavar="NAME",
        help="of the network, such as eth0, under torchrun or Ray (default: the system's)",
    )
    add(
        "--global-batch",
        type=int,
        metavar="M",
        help="the same over all processes, summed in a tree: the same bits in 1, 2 or 4 of them",
    )
    add("--shard", choices=SHARDS, help="what each process has a part of, under torchrun (default: none)")
    add("--reduce", choices=REDUCTIONS, help="how processes sum gradients, under torchrun (default: tree)")
    add("--schedule", choices=SCHEDULES, help="how the learning rate changes over the run (default: constant)")
    add("--warmup", type=int, metavar="N", help="raise the learning rate over the first N steps (default: 0)")
    add("--warmup-ratio", type=float, metavar="X", help="the same over this share of all steps, such as 0.03")


def _add_evaluation(add: Callable) -> None:
    add("--eval", type=Path, metavar="FILE", help="measure the loss on this data, too")
    add(
        "--val-split",
        type=float,
        metavar="X",
        help="hold this share of the data out, at least 8 samples, and measure on it (default, without --epochs, "
        "--steps and --eval: 0.05 of 40 samples or more)",
    )
    add(
        "--eval-every", type=int, metavar="N", help="evaluate every N steps and after the last (default: once an epoch)"
    )
    add(
        "--ask",
        action="append",
        metavar="FILE|TEXT",
        help="let the model answer this, or each prompt of a file, at each evaluation; also several",
    )
    add("--test", type=Path, metavar="FILE", help="measure the loss on this data once, at the end")
    add(
        "--judge",
        action="store_true",
        help="at the end, do what mebp judge does on at most 100 samples of --test, or else --eval",
    )
    add(
        "--patience",
        type=int,
        metavar="N",
        help="stop after N evaluations without a lower loss (default: 3 where the run chooses its length, else never)",
    )


def _add_files(add: Callable) -> None:
    add("--adapter", type=Path, metavar="DIR", help="continue from this PEFT adapter")
    add_shared(add, "adapter-out", type=Path)
    add(
        "--push-to-hub",
        metavar="ID",
        help="at the end, upload the adapter to this repository of the Hugging Face hub; a new one is private",
    )
    add("--model-out", type=Path, metavar="DIR", help="write the model to this folder, if its own weights are trained")
    add(
        "--keep",
        choices=ADAPTERS,
        help="keep the adapter or model of the best evaluation, of the last step or of all (default: last, or "
        "best where the run chooses its length and evaluates)",
    )
    add_shared(add, "state", type=Path)
    add_shared(add, "save-every", type=int)
    add(
        "--pause-on",
        metavar="SIGNAL",
        help="at SIGUSR1 or SIGUSR2, save the state and free the memory; go on at the next one, or at SIGCONT",
    )
    add_shared(add, "resume")
    add("--overwrite", action="store_true", help="replace the state, adapter, model, log and picture of an earlier run")
    add(
        "--log",
        type=Path,
        metavar="run.jsonl",
        help="log each step and evaluation as a line of JSON; of a table, if the name ends in .csv",
    )
    add("--plot", type=Path, metavar="run.png", help="draw the loss curve; --adapter-out DIR has one in any case")
    add("--report-to", metavar="NAMES", help="report to tensorboard, wandb or trackio, or several with commas")


def _add_machine(add: Callable) -> None:
    add(
        "--plan-only",
        action="store_true",
        help="show what the run would need, then stop: no training, no adapter, no state",
    )
    add(
        "--spill-dir",
        type=Path,
        metavar="DIR",
        help="keep checkpoints in a file in this folder, on a disk (default: $TMPDIR, if the plan spills)",
    )
    add_shared(add, "profile", type=Path)
    add_shared(add, "threads", type=int)
    add_shared(add, "device")


def _add_objectives(parser: argparse.ArgumentParser) -> None:
    several = parser.add_argument_group("of several objectives")
    _add_rewards(several.add_argument)
    groups = {(name,): parser.add_argument_group(f"of --objective {name}") for name in PARTS}
    kinds = objective_kinds()
    for name, value, help in objective_helps():
        how = {"type": kinds[name], "metavar": value} if value else {"action": argparse.BooleanOptionalAction}
        groups.get(tuple(owners_of(name)), several).add_argument(flag(name), **how, help=help)


def _add_rewards(add: Callable) -> None:
    add("--reference", metavar="WHAT", help="base, initial, a PEFT folder or a file of its log-probabilities")
    add(
        "--reward",
        action="append",
        metavar="WHAT",
        help="MODULE:FUNCTION as TRL has it, a command that reads and writes JSON lines, or NAME.mebp; also several",
    )
    add(
        "--reward-timeout",
        type=float,
        metavar="SECONDS",
        help="end a reward command, with all that it started, if a call takes longer (default: 300; 0: no limit)",
    )
    add("--rollouts", type=Path, metavar="FILE", help="train on completions that were written elsewhere, as data")


def run(arguments: argparse.Namespace) -> int:
    given = {name: value for name, value in vars(arguments).items() if name != "command" and value is not None}
    for name, kind in optimizer_option_kinds().items():
        if name in given and kind is tuple:
            given[name] = convert(flag(name), given[name], kind)
    file, allow_code = given.pop("config", None), given.pop("allow_code", False)

    from mebp.training.pushing import UploadError
    from mebp.training.request import Request

    request = Request.of({**_from_file(file, given, allow_code), **given})
    for option, path in outputs_of(request.training).items():
        check_no_input(option, path, {"--config": file})

    try:
        stopped_by = request.run().signal
    except UploadError as error:  # all else is done, and another status would say that it is not
        say(f"mebp: {error}", error=True)
        return DISAGREES
    if stopped_by is not None and is_launched():  # where the first ends, torchrun sends the others SIGTERM
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return 0 if stopped_by is None else BY_SIGNAL + stopped_by


def _from_file(file: Path | None, given: Collection[str], allow_code: bool) -> dict[str, object]:
    if file is None:
        return {}
    from mebp.training.config import read_config
    from mebp.training.request import request_kinds

    return read_config(file, request_kinds(), given, allow_code)
