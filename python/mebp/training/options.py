# SPDX-License-Identifier: Apache-2.0
"""What a training run is asked to do."""

import math
import os
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import get_args, get_type_hints

from mebp.compile_options import refuse_of_mebpc
from mebp.data.columns import Columns
from mebp.data.counting import Counting
from mebp.data.holding_out import FROM, SHARE, HoldOut
from mebp.data.sources import Source, read_sources
from mebp.distributed.choices import NO_SHARD, TREE, check_choices
from mebp.errors import Error
from mebp.files import user_path
from mebp.objective_traits import SFT, objectives, those_that
from mebp.tasks import CAUSAL, FILL_MASK, TASKS
from mebp.tokenizer import check_tokens
from mebp.training.foreign_names import option_hint
from mebp.training.interrupts import PAUSING
from mebp.training.objective_options import objective_options
from mebp.training.reports import programs
from mebp.training.schedule import SCHEDULES
from mebp.words import listed

ADAPTERS = ("best", "last", "all")
MEASURED = ("eval", "test")  # options that name data to measure on
_BEYOND = 1 << 63  # what the runtime's integers hold
_KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a string",
    Path: "a path",
    tuple: "numbers with commas between them, such as 0.9,0.999",
    list: "a string or a path, or several",
}


@dataclass(frozen=True)
class TrainingOptions:
    """As the command line has them; see `mebp train --help`. Raises mebp.Error for an invalid value."""

    bundle: Path
    data: list  # of what mebp.data.sources reads: files and folders, with their shares
    columns: str | None = None
    loss_on: str | None = None  # one of mebp.data.counting.LOSS_ON, as the next two
    turn_weights: bool = False
    empty_thoughts: str | None = None
    task: str | None = None
    train_tokens: list | None = None  # which a model's tokenizer does not have yet
    mask_probability: float | None = None
    objective: str = SFT
    objective_options: Mapping[str, object] = field(default_factory=dict)  # its own, by name
    reference: str | None = None
    reward: list | None = None
    reward_timeout: float | None = None  # seconds; None for that of mebp.rewards
    rollouts: Path | None = None
    steps: int | None = None
    epochs: int | None = None
    lr: float = 2e-4
    embedding_lr: float | None = None  # None for lr
    seed: int = 0
    optimizer: str | None = None
    weight_decay: float = 0.0
    optimizer_options: Mapping[str, object] = field(default_factory=dict)  # likewise
    clip: float | None = None
    clip_recompute: bool = False
    accumulate: int = 1
    global_batch: int | None = None  # micro-batches of a step, of all processes
    interface: str | None = None  # of the network, for these
    shard: str = NO_SHARD
    reduce: str = TREE
    packing: bool | None = None
    schedule: str | None = None  # None for a constant one
    warmup: int = 0
    warmup_ratio: float | None = None
    eval: Path | None = None  # a Source that stands for it
    val_split: float | None = None
    eval_every: int | None = None
    ask: list | None = None  # texts, and files of prompts
    test: Path | None = None  # likewise
    judge: bool = False
    adapter: Path | None = None
    adapter_out: Path | None = None
    push_to_hub: str | None = None
    model_out: Path | None = None
    keep: str | None = None  # None for the last
    patience: int | None = None
    state: Path | None = None
    save_every: int = 50
    pause_on: str | None = None
    resume: bool = False
    overwrite: bool = False
    log: Path | None = None
    plot: Path | None = None
    report_to: str | None = None
    spill_dir: Path | None = None
    plan_only: bool = False
    profile: Path | None = None
    threads: int | None = None
    device: str = "cpu"
    connect: str | None = None
    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    plain_text: bool = False
    retry_for: float | None = None
    in_flight: int = 1

    def __post_init__(self) -> None:
        columns = Columns.read(self.columns)
        counting = self.counting
        sources = tuple(Source.of(source, columns, counting=counting) for source in read_sources(self.data))
        object.__setattr__(self, "data", sources)
        for name in MEASURED:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, Source.of(getattr(self, name), columns, name, counting))
        if self.objective not in objectives():
            raise Error(f"--objective is '{self.objective}'; choose {listed(objectives())}")
        object.__setattr__(self, "objective_options", objective_options(self.objective, self.objective_options))
        if self.train_tokens is not None:
            texts = [text for given in self.train_tokens for text in os.fspath(given).split(",")]
            object.__setattr__(self, "train_tokens", check_tokens(texts))
        self._check_names()
        self._check_numbers()
        if self.global_batch is not None:
            self._check_global_batch()
        self._check_objective()
        self._check_together()

    @property
    def batches_per_step(self) -> int:
        """Of all processes; pairs or prompts, as the objective has them."""
        return self.global_batch or self.accumulate

    def _check_names(self) -> None:
        if self.train_tokens and self.task not in (None, CAUSAL):
            raise Error(f"--train-tokens is for language models; leave it or --task {self.task} out")
        if self.task is not None and self.task not in TASKS:
            raise Error(f"--task is '{self.task}'; choose {listed(TASKS)}")
        if self.schedule is not None and self.schedule not in SCHEDULES:
            raise Error(f"--schedule is '{self.schedule}'; choose {', '.join(SCHEDULES)}")
        if self.pause_on is not None and self.pause_on not in PAUSING:
            raise Error(f"--pause-on is '{self.pause_on}'; choose {' or '.join(PAUSING)}")
        if self.keep is not None and self.keep not in ADAPTERS:
            raise Error(f"--keep is '{self.keep}'; choose {', '.join(ADAPTERS)}")
        if self.report_to is not None:
            programs(self.report_to)

    def _check_numbers(self) -> None:
        counts = "steps", "epochs", "accumulate", "global_batch", "eval_every", "patience", "save_every", "in_flight"
        for name in counts:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise Error(f"--{name.replace('_', '-')} is {value}; give at least 1")
        for name in ("seed", "warmup"):
            if getattr(self, name) < 0:
                raise Error(f"--{name} is {getattr(self, name)}; give at least 0")
        if self.clip is not None and not (math.isfinite(self.clip) and self.clip > 0):
            raise Error(f"--clip is {self.clip:g}; give a number above 0")
        if self.warmup_ratio is not None and not 0 <= self.warmup_ratio < 1:
            raise Error(f"--warmup-ratio is {self.warmup_ratio:g}; give a share of the steps, such as 0.03")
        if self.embedding_lr is not None and not (math.isfinite(self.embedding_lr) and self.embedding_lr >= 0):
            raise Error(f"--embedding-lr is {self.embedding_lr:g}; give a number of at least 0")
        if self.val_split is not None and not 0 < self.val_split < 1:
            raise Error(f"--val-split is {self.val_split:g}; give a share of the samples, such as 0.05")
        if self.mask_probability is not None and not 0 < self.mask_probability <= 1:
            raise Error(f"--mask-probability is {self.mask_probability:g}; give a number above 0 and up to 1")
        if self.reward_timeout is not None and not (math.isfinite(self.reward_timeout) and self.reward_timeout >= 0):
            raise Error(f"--reward-timeout is {self.reward_timeout:g}; give seconds, or 0 for no limit")

    def _check_objective(self) -> None:
        objective = objectives()[self.objective]
        if self.task not in (None, CAUSAL) and self.objective != SFT:
            raise Error(f"--objective {self.objective} is for language models; leave it or --task {self.task} out")
        if self.mask_probability is not None and self.task not in (None, FILL_MASK):
            raise Error(f"--mask-probability is for --task fill-mask; leave it or --task {self.task} out")
        if self.reference is not None and not objective.compares:
            comparing = those_that(lambda traits: traits.compares)
            raise Error(
                f"--reference is what some objectives compare with; give --objective {comparing}, or leave it out"
            )
        of_writing = {"--reward": self.reward, "--rollouts": self.rollouts, "--reward-timeout": self.reward_timeout}
        for option, value in of_writing.items():
            if value not in (None, []) and not objective.writes:
                writing = those_that(lambda traits: traits.writes)
                raise Error(f"{option} is of completions that the model writes; give --objective {writing}, too")
        for option in self.counting.asked:
            if self.objective != SFT or self.task not in (None, CAUSAL):
                other = f"--task {self.task}" if self.objective == SFT else f"--objective {self.objective}"
                raise Error(f"{option} says what of answers is learned, and {other} learns otherwise; leave it out")
        if self.turn_weights:
            self._check_weights()
        if self.packing and objective.sums_sequences:
            raise Error(
                f"--packing puts samples side by side, and --objective {self.objective} takes each sequence by itself; "
                "leave one of them out"
            )
        if self.in_flight > 1 and objective.sums_sequences:
            raise Error(
                f"--in-flight sends batches ahead, and --objective {self.objective} takes one sequence after the "
                "other; leave one of them out"
            )

    def _check_global_batch(self) -> None:
        if self.accumulate != 1:
            raise Error("--global-batch counts the batches of a step in all processes, and --accumulate those of one; "
                        "give one of them")  # fmt: skip
        if self.connect:
            raise Error("--global-batch sums gradients that are all here, and with --connect some are the server's; "
                        "give --accumulate instead")  # fmt: skip

    def _check_weights(self) -> None:
        besides = {"--packing": self.packing, "--in-flight": self.in_flight > 1, "--connect": self.connect}
        for option, value in besides.items():
            if value:
                raise Error(
                    f"--turn-weights takes each batch of samples by itself, which {option} does not; leave one of them "
                    "out"
                )

    def _check_together(self) -> None:
        check_choices(self)
        if self.steps is not None and self.epochs is not None:
            raise Error("--steps and --epochs cannot be used together; give one")
        if self.warmup and self.warmup_ratio is not None:
            raise Error("--warmup and --warmup-ratio cannot be used together; give one")
        if self.val_split is not None and self.eval is not None:
            raise Error("--val-split and --eval cannot be used together: each says what to measure on; give one")
        if self.val_split is not None and not self.may_hold_out:
            raise Error(
                "--val-split holds samples of text or with classes out; give --eval FILE, which any objective and task "
                "can measure on"
            )
        if self.clip_recompute and self.clip is None:
            raise Error("--clip-recompute says how to clip; give --clip X, too")
        if self.in_flight > self.accumulate:
            raise Error(
                f"--in-flight {self.in_flight} is more than the {self.accumulate} of --accumulate, which are all "
                "batches of a step; give at most as many"
            )
        if self.ask and self.task not in (None, CAUSAL):
            raise Error(f"--ask is for models that write text; leave it or --task {self.task} out")
        if self.ask and self.connect:
            raise Error("--ask and --connect cannot be used together: a device's half writes no text; leave one out")
        self._check_judge()
        if self.resume and self.state is None:
            raise Error("--resume needs --state DIR, the folder to continue from")
        if self.pause_on and self.state is None:
            raise Error("--pause-on needs --state DIR, where the run is kept meanwhile")
        if self.pause_on and self.profile:
            raise Error("--pause-on and --profile cannot be used together; give one")
        if self.resume and self.overwrite:
            raise Error("--resume and --overwrite cannot be used together; give one")
        if self.adapter_out is not None and self.model_out is not None:
            raise Error(
                "--adapter-out and --model-out cannot be used together: a bundle trains one or the other; give one"
            )
        if self.push_to_hub is not None and self.adapter_out is None:
            raise Error("--push-to-hub needs --adapter-out DIR, where the adapter that it uploads is kept")
        if self.keep not in (None, "last") and self.adapter_out is None and self.model_out is None:
            raise Error(f"--keep {self.keep} needs --adapter-out DIR, where adapters go, or --model-out DIR")
        needing = {"--eval-every": self.eval_every, "--patience": self.patience, "--keep best": self.keep == "best"}
        for option, value in needing.items():
            asks = option == "--eval-every" and self.ask
            if value and self.eval is None and self.val_split is None and not self.chooses_length and not asks:
                raise Error(f"{option} needs --eval FILE, the data to measure the loss on, or --val-split X")

    def _check_judge(self) -> None:
        if not self.judge:
            return
        if self.task not in (None, CAUSAL):
            raise Error(f"--judge is for models that write text; leave it or --task {self.task} out")
        if self.connect:
            raise Error("--judge and --connect cannot be used together: a device's half writes no text; leave one out")
        if self.adapter_out is None:
            raise Error("--judge needs --adapter-out DIR, the adapter to judge")
        if self.eval is None and self.test is None:
            raise Error("--judge needs --test FILE or --eval FILE, the questions to ask")

    @property
    def counting(self) -> Counting:
        """Raises mebp.Error for a value that there is not."""
        return Counting.read(self.loss_on, self.turn_weights, self.empty_thoughts)

    @property
    def measured(self) -> dict[str, Source]:
        """Data to measure on, by "eval" and "test" where there is any."""
        found = {name: getattr(self, name) for name in MEASURED}
        return {name: source for name, source in found.items() if source is not None}

    @property
    def may_hold_out(self) -> bool:
        """Whether it trains on samples of which some can be kept for measuring."""
        return self.objective == SFT and self.task != FILL_MASK

    @property
    def chooses_length(self) -> bool:
        """Whether the run itself chooses its length, what is held out and which step is kept (defaults.py)."""
        return self.steps is None and self.epochs is None and self.may_hold_out

    @property
    def hold_out(self) -> HoldOut | None:
        if self.val_split is not None:
            return HoldOut(self.val_split, self.seed)
        return HoldOut(SHARE, self.seed, FROM) if self.chooses_length and self.eval is None else None

    def total_steps(self, steps_per_epoch: int) -> int:
        """Of a run that does not choose its length, by default one epoch."""
        return self.steps if self.steps is not None else (self.epochs or 1) * steps_per_epoch

    def warmup_steps(self, total: int) -> int:
        return self.warmup if self.warmup_ratio is None else math.ceil(self.warmup_ratio * total)


def option_kinds() -> dict[str, type]:
    """The type of each option, by its name; None may stand for any that has it as its default."""
    hints = get_type_hints(TrainingOptions)
    del hints["objective_options"], hints["optimizer_options"]  # which are options by their own names
    return {name: next((kind for kind in get_args(hint) if kind is not NoneType), hint) for name, hint in hints.items()}


def find_name(written: str, kinds: Mapping[str, type]) -> str:
    """The option that `written` means, dashes for underscores allowed; raises mebp.Error where there is none."""
    name = written.replace("-", "_")
    if name not in kinds:
        refuse_of_mebpc(name)
        hint = option_hint(written, [kind.replace("_", "-") for kind in kinds], lambda option: option.replace("-", "_"))
        raise Error(f"unknown option {_shortened(written)}; {hint or 'there are ' + ', '.join(kinds)}")
    return name


def _shortened(written: str) -> str:
    """In quotes, up to a length that no option has."""
    return repr(written if len(written) <= 60 else f"{written[:60]}...")


def convert(name: str, value: object, kind: type) -> object:
    """`value` as a `kind`, where it can be meant so; raises mebp.Error where not."""
    if kind is float and isinstance(value, str):  # YAML reads 2e-4, which has no point, as a string
        try:
            return float(value)
        except ValueError:
            pass
    if kind in (int, float) and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= _BEYOND:
            raise Error(f"{name} is {reprlib.repr(value)}; give a number below 2^63")
        return kind(value)
    if kind is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        try:
            first, second = parts
            return float(first), float(second)
        except (TypeError, ValueError, OverflowError):
            pass
    if kind is list:
        several = list(value) if isinstance(value, list | tuple) else [value]
        if all(isinstance(each, str | os.PathLike) for each in several):
            return several
    if kind is Path and isinstance(value, str | os.PathLike):
        return user_path(value)
    if kind is str and isinstance(value, os.PathLike):  # of what names a file or something else
        return os.fspath(value)
    if type(value) is not kind or kind in (tuple, list):  # these were returned above, if they are of the right things
        raise Error(f"{name} is {reprlib.repr(value)}; give {_KINDS[kind]}")
    return value
