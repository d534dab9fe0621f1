# SPDX-License-Identifier: Apache-2.0
"""Conditions on the figures of a judgement, such as right>=0.9,forgets<=0.02."""

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from mebp.errors import Error
from mebp.words import listed

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_CONDITION = re.compile(r"\s*([A-Za-z_]\w*)\s*([^\w\s.+-]+)\s*(\S+)\s*")


@dataclass(frozen=True)
class Condition:
    """That a figure has to meet."""

    name: str
    comparison: str
    limit: float

    def __str__(self) -> str:
        return f"{self.name}{self.comparison}{self.limit:g}"

    def holds(self, figures: Mapping[str, float]) -> bool:
        """What is not a number meets nothing."""
        return OPERATORS[self.comparison](figures[self.name], self.limit)


def read_gate(written: str, names: Collection[str]) -> list[Condition]:
    """Conditions with commas between them, on figures of these names; raises mebp.Error for anything else."""
    return [_read(written, part, names) for part in written.split(",")]


def check_figures(gate: Sequence[Condition], missing: Mapping[str, str]) -> None:
    """Raises mebp.Error where a condition is on a figure that cannot be had, before anything is computed.

    missing: why, by the figures' names.
    """
    for condition in gate:
        if condition.name in missing:
            raise Error(f"--gate {condition}: {missing[condition.name]}")


def _read(written: str, part: str, names: Collection[str]) -> Condition:
    found = _CONDITION.fullmatch(part)
    if found is None:
        raise Error(f"--gate '{written}': '{part.strip()}' is not a condition; give one such as right>=0.9")
    name, comparison, limit = found.groups()
    if name not in names:
        raise Error(f"--gate '{written}': '{name}' is not a figure; choose {listed(names)}")
    if comparison not in OPERATORS:
        raise Error(f"--gate '{written}': '{comparison}' is not a comparison; choose {listed(OPERATORS)}")
    if not _NUMBER.fullmatch(limit) or not math.isfinite(number := float(limit)):
        raise Error(f"--gate '{written}': '{limit}' is not a number; give one such as 0.9")
    return Condition(name, comparison, number)
