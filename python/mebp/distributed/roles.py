# SPDX-License-Identifier: Apache-2.0
"""What each process of a group does of a run: all train, and the first alone measures, writes and shows."""

from dataclasses import replace
from typing import TYPE_CHECKING

from mebp.distributed.choices import AUTO, OPTIMIZER, TREE, WEIGHTS
from mebp.distributed.group import Group, joined
from mebp.errors import Error
from mebp.objective_traits import objectives
from mebp.words import say

if TYPE_CHECKING:
    from mebp.training.options import TrainingOptions

_OF_FIRST = ("adapter", "adapter_out", "push_to_hub", "model_out", "log", "plot", "report_to", "profile", "ask", "test",
             "state")  # fmt: skip
_CHOSEN = ("epochs", "steps", "val_split")
# Options that processes may have of their own.
OF_ONE = (*_OF_FIRST, "bundle", "data", "rollouts", "eval", "threads", "overwrite", "spill_dir", "resume", "interface")


def check_shared(options: "TrainingOptions", size: int, starts: str) -> None:
    """Raises mebp.Error for what a run in so many processes cannot have. `starts` says who starts them."""
    refused = {
        "--pause-on": options.pause_on,
        "--judge": options.judge,
        "--plan-only": options.plan_only,
        "--connect": options.connect,
    }
    for option, value in refused.items():
        if value:
            raise Error(f"{option} is of a run in one process, and {starts} {size}; leave it out")
    if options.shard == WEIGHTS and (writing := _writing(options)):
        raise Error(f"{writing} writes answers, which takes all weights, and --shard weights has a part of them; leave "
                    "one of them out")  # fmt: skip
    count = _global_batch(options, size)
    if count < size:
        raise Error(f"--global-batch {count}: {size} processes need a micro-batch each; give at least "
                    f"{size}, or start fewer")  # fmt: skip


def _global_batch(options: "TrainingOptions", size: int) -> int:
    return options.global_batch or size * options.accumulate


def for_rank(options: "TrainingOptions", group: Group) -> "TrainingOptions":
    """Raises mebp.Error for what a run in several processes cannot have, and where they share it out differently."""
    check_shared(options, group.size, "torchrun has started")
    count = _global_batch(options, group.size)
    if group.is_first:
        each, rest = divmod(count, group.size)
        has_same_bits = options.reduce == TREE and rest == 0 and each & (each - 1) == 0
        say(f"{group.size} processes, --global-batch {count}: "
            + ("the same bits as in one" if has_same_bits else "as in one, but for rounding"))  # fmt: skip
    group.check_alike({"--shard": options.shard, "--reduce": options.reduce})  # which decide what all do from here on
    if options.shard == AUTO and _writing(options):
        options = replace(options, shard=OPTIMIZER)
    others = {} if group.is_first else {"resume": False, **dict.fromkeys(_OF_FIRST)}
    return replace(options, global_batch=count, accumulate=1, **others)


def _writing(options: "TrainingOptions") -> str | None:
    """The option by which a process writes answers, which takes all weights."""
    if options.ask:
        return "--ask"
    return f"--objective {options.objective}" if objectives()[options.objective].writes else None


def as_first(options: "TrainingOptions") -> "TrainingOptions":
    """With what the run of rank 0, which may go on, has chosen for its length."""
    group = joined()
    if group is None:
        return options
    told = group.gather_json({name: getattr(options, name) for name in _CHOSEN})[0]
    if not isinstance(told, dict) or not all(isinstance(told.get(name), int | float | None) for name in _CHOSEN):
        raise Error("rank 0 tells no length of the run; start all from the same mebp")
    return replace(options, **{name: told.get(name) for name in _CHOSEN})
