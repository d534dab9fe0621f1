# SPDX-License-Identifier: Apache-2.0
"""What the user may say of a group of processes."""

from typing import TYPE_CHECKING

from mebp.errors import Error

if TYPE_CHECKING:
    from mebp.training.options import TrainingOptions

SHARDS = NO_SHARD, OPTIMIZER, WEIGHTS, AUTO = "none", "optimizer", "weights", "auto"
REDUCTIONS = TREE, RING = "tree", "ring"


def check_choices(options: "TrainingOptions") -> None:
    """Raises mebp.Error for what is no choice."""
    for option, value, choices in (("--shard", options.shard, SHARDS), ("--reduce", options.reduce, REDUCTIONS)):
        if value not in choices:
            raise Error(f"{option} {value} is none of {', '.join(choices)}; give one of them")


def check_alone(options: "TrainingOptions") -> None:
    """Raises mebp.Error, in a process that nobody has started as one of several, for what such processes have."""
    asked = {"--interface": options.interface, "--shard": options.shard != NO_SHARD,
             "--reduce": options.reduce != TREE}  # fmt: skip
    for option, value in asked.items():
        if value:
            raise Error(f"{option} is for processes that torchrun or mebp.ray starts; leave it out")
