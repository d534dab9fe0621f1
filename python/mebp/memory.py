# SPDX-License-Identifier: Apache-2.0
"""This process' memory and the machine's, as the operating system counts it."""

import math
from pathlib import Path

from mebp.extension import load_runtime


def anonymous_bytes() -> int:
    """Resident anonymous memory now; 0 where there is no /proc."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except (OSError, ValueError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def free_bytes(root: str = "/") -> float:
    """What new pages can take without swapping, within the limits of this process' control groups, too, by proc and sys
    in the folder `root`; infinite where the system does not tell."""
    found = load_runtime().free_bytes(root)
    return math.inf if found is None else found
