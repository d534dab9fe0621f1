# SPDX-License-Identifier: Apache-2.0
"""This process' memory and the machine's, as the operating system counts it."""

import math
from collections.abc import Iterator
from pathlib import Path

_GROUPS, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def anonymous_bytes() -> int:
    """Resident anonymous memory now; 0 where there is no /proc."""
    return int(_read(Path("/proc/self/status"), "RssAnon:") or 0)


def free_bytes() -> float:
    """What new pages can take without swapping, within the limits of this process' control groups, too; infinite where
    there is no /proc."""
    machine = _read(Path("/proc/meminfo"), "MemAvailable:")
    return min([math.inf if machine is None else machine, *map(_left, _groups())])


def _read(path: Path, field: str) -> float | None:
    """The number after `field`, in bytes."""
    line = next((line for line in _lines(path) if line.startswith(field)), None)
    return None if line is None else int(line.split()[1]) * (1024.0 if line.endswith("kB") else 1.0)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, ValueError):
        return []


def _groups() -> Iterator[Path]:
    """The folders of this process' group and of those above it, of version 2 and of the memory controller of 1."""
    for line in _lines(_OWN):
        _, controllers, name = line.split(":", 2)
        if controllers in ("", "memory"):
            root = _GROUPS / controllers
            inside = root / name.lstrip("/")
            # In a container the names may be those outside of it, and its own group is the root.
            yield from (each for each in (inside, *inside.parents) if each.is_relative_to(root))


def _left(group: Path) -> float:
    """What is left of a group's limit; the files that it has read lately can go."""
    for limit, usage, files in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, used = _lines(group / limit), _lines(group / usage)
        if most and used and most[0].isdigit():
            return max(0.0, int(most[0]) - int(used[0]) + (_read(group / "memory.stat", f"{files} ") or 0.0))
    return math.inf
