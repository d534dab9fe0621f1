# SPDX-License-Identifier: Apache-2.0
"""What a run can train for: the values of --objective (format/objectives.h)."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from mebp.extension import load_runtime
from mebp.words import listed

SFT = "sft"  # the default; it learns the text itself


class ObjectiveTraits(NamedTuple):
    data: str  # what it learns from
    form: str  # how its data is written: "text", "pairs" or "prompts"
    sums_sequences: bool  # a step takes each sequence by itself
    writes: bool  # the sequences that it learns from
    has_values: bool  # of a value head
    compares: bool  # with a reference model, at least by some of its options


@cache
def objectives() -> dict[str, ObjectiveTraits]:
    """By name, the default first. Raises mebp.Error where the extension is not built."""
    return {name: ObjectiveTraits(**traits) for name, traits in load_runtime().objectives().items()}


def those_that(holds: Callable[[ObjectiveTraits], bool]) -> str:
    """ "a, b or c", for refusals."""
    return listed(name for name, traits in objectives().items() if holds(traits))
