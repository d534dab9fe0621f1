# SPDX-License-Identifier: Apache-2.0
"""What a session's profile says of each step: its kernel calls, or seconds by kind of kernel."""

import json
from collections import defaultdict
from pathlib import Path


def calls_by_step(trace: Path, steps: int) -> list[list[dict]]:
    """Of each of the `steps` that the file holds, in order. Raises ValueError where they are not all alike."""
    kernels = [event for event in json.loads(trace.read_text()) if event["cat"] == "kernel"]
    length, rest = divmod(len(kernels), steps)
    if rest or not kernels:
        raise ValueError(f"{trace}: {len(kernels)} kernel calls do not make {steps} equal steps")
    return [kernels[first : first + length] for first in range(0, len(kernels), length)]


def seconds_by_kind(trace: Path, steps: int) -> list[dict[str, float]]:
    return [_sum(calls) for calls in calls_by_step(trace, steps)]


def _sum(kernels: list[dict]) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        seconds[kernel["name"]] += kernel["dur"] / 1e6
    return dict(seconds)
