# SPDX-License-Identifier: Apache-2.0
"""The memory that a run may plan for where nobody names a size."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.memory import free_bytes

QUARTER = "quarter"  # of what is free: the budget of a plan where nobody asks for one
CHOSEN = "budget_is_chosen"  # beside options of mebpc: nobody asked for their memory_budget, so nothing else keeps it
_SHARE = 0.75  # the rest is for the system, the pages of the mapped weights, and Python
_NEARLY = 1.05  # of the fastest plan's time, which is worth less memory
_UNITS = {"MB": 10**6, "KB": 10**3, "B": 1}
_ENTRY = re.compile(r"-[0-9a-f]{16}-([0-9]+)(MB|KB|B)")  # the end of a name in the cache
_SCHEDULE = ("memory_budget", "chunk_size", "checkpoint_spacing", "loss_rows", "loss_columns")


@dataclass(frozen=True)
class Budget:
    bytes: int
    reason: str

    def __str__(self) -> str:
        return size_text(self.bytes)


def size_text(size: int) -> str:
    """As --memory-budget takes it, exactly: "64MB", "2630KB" or "12345B"."""
    name = next(name for name, unit in _UNITS.items() if size % unit == 0)
    return f"{size // _UNITS[name]}{name}"


def free_budget() -> Budget:
    """Three quarters of what the machine has free now, in steps of an eighth, so that the next run finds its bundle."""
    free = free_bytes()
    if not math.isfinite(free):
        raise Error("--memory-budget auto: this system does not tell what is free; give a size, such as 512MiB")
    return Budget(
        load_runtime().stepped_down(int(_SHARE * free)),
        f"{free / 1e6:,.0f} MB are free, a quarter of which is left to all else",
    )


def quarter() -> Budget | None:
    """Of what is free, in the same steps; None where the system does not tell."""
    free = free_bytes()
    if not math.isfinite(free):
        return None
    return Budget(load_runtime().stepped_down(int(free / 4)), f"a quarter of the {free / 1e6:,.0f} MB that are free")


def leaves_plan_open(options: Mapping[str, object]) -> bool:
    """Whether these options of mebpc leave the plan to it, on a device whose memory is what is free here."""
    told = [name for name in _SCHEDULE if options.get(name) is not None]
    return not told and options.get("spill") in (None, "none") and options.get("device") in (None, "cpu")


def choose_budget(points: Sequence[Mapping], most: Budget, generating: int = 0) -> Budget:
    """That of the smallest plan which is nearly as fast as the fastest within `most`, or of the smallest of all where
    none fits. `points`: of mebpc's frontier. `generating`: what generating text takes, which a budget bounds, too."""
    smallest = min(points, key=lambda point: point["peak_bytes"])
    fitting = [point for point in points if point["peak_bytes"] <= most.bytes]
    if fitting:
        fastest = min(point["seconds"] for point in fitting)
        near = [point for point in fitting if point["seconds"] <= _NEARLY * fastest]
        chosen, reason = min(near, key=lambda point: point["peak_bytes"]), f"the fastest plan within {most.reason}"
    else:
        chosen, reason = smallest, f"the smallest plan, for none fits {most.reason}"
    if chosen is not smallest:
        times = f"{smallest['seconds'] / chosen['seconds']:.1f} times as long"
        reason += f"; the smallest takes {smallest['peak_bytes'] / 1e6:.1f} MB, with which a step takes {times}"
    elif fitting:
        reason += ", and the smallest"
    if generating > chosen["peak_bytes"]:
        reason += "; generating text takes more, and sets the budget"
    return Budget(_up(max(chosen["peak_bytes"], generating)), reason)


def find_budget(names: Iterable[str], most: Budget) -> Budget | None:
    """The largest that one of these entries of the cache has and that fits."""
    fitting = [size for size in map(_size_of, names) if 0 < size <= most.bytes]
    return Budget(max(fitting), f"as a bundle in the cache has it, within {most.reason}") if fitting else None


def binding_budget(bundle: Path, planned: int) -> int:
    """The budget that a run of this bundle must keep: none where nobody asked for the plan's."""
    return 0 if _size_of(bundle.resolve().parent.name) else planned


def _size_of(name: str) -> int:
    """The chosen budget in the name of an entry; 0 of one that has none."""
    found = _ENTRY.search(name)
    if found is None or found.end() != len(name):
        return 0
    return int(found[1]) * _UNITS[found[2]]


def _up(size: int) -> int:
    return -(-size // _unit(size)) * _unit(size)


def _unit(size: int) -> int:
    """What sizes like this one are multiples of, so that they are short and a byte makes no other bundle."""
    return 10**6 if size >= 10**7 else 10**4
