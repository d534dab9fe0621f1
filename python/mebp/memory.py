# SPDX-License-Identifier: Apache-2.0
"""This process's memory and the machine's, as the operating system counts it."""

import math
from pathlib import Path


def anonymous_bytes() -> int:
    """Resident anonymous memory now; 0 where there is no /proc."""
    return int(_read("/proc/self/status", "RssAnon:") or 0)


def free_bytes() -> float:
    """What new pages can take without swapping; infinite where there is no /proc."""
    return _read("/proc/meminfo", "MemAvailable:") or math.inf


def _read(path: str, field: str) -> float | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(field)), None)
