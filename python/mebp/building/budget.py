# SPDX-License-Identifier: Apache-2.0
"""The memory that a run may plan for where nobody names a size."""

import math
from dataclasses import dataclass

from mebp.errors import Error
from mebp.memory import free_bytes

_SHARE = 0.75  # the rest is for the system, the pages of the mapped weights, and Python


@dataclass(frozen=True)
class Budget:
    bytes: int
    reason: str


def free_budget() -> Budget:
    """Three quarters of what the machine has free now, in steps of an eighth, so that the next run finds its bundle."""
    free = free_bytes()
    if not math.isfinite(free):
        raise Error("--memory-budget auto: this system does not tell what is free; give a size, such as 512MiB")
    most = int(_SHARE * free)
    step = 1 << max(0, most.bit_length() - 4)
    return Budget(most // step * step, f"{free / 1e6:,.0f} MB are free, a quarter of which is left to all else")
