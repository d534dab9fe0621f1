# SPDX-License-Identifier: Apache-2.0
"""Kernel calls of a profile, summed up by kernel."""

from collections.abc import Iterable
from dataclasses import dataclass

from parts.roofline.limits import Limits


@dataclass
class Kernel:
    """All calls of one kernel in a step."""

    calls: int = 0
    seconds: float = 0
    flops: float = 0
    bytes: float = 0
    least: float = 0  # seconds, if every call were as fast as the machine's limits allow
    waited: float = 0  # seconds of all threads together
    worked: float = 0

    @property
    def gap(self) -> float:
        """Seconds beyond the limits. Where operands are in a cache, a call may be faster than memory is."""
        return self.seconds - self.least

    @property
    def waiting(self) -> float:
        """The part of the threads' time."""
        return self.waited / (self.waited + self.worked)

    def add(self, call: dict, limits: Limits) -> None:
        work, seconds = call["args"], call["dur"] / 1e6
        self.calls += 1
        self.seconds += seconds
        self.flops += work["flops"]
        self.bytes += work["bytes"]
        self.least += min(seconds, limits.seconds(work["flops"], work["bytes"]))
        self.waited += sum(thread["waiting_us"] for thread in work["threads"]) / 1e6
        self.worked += sum(thread["busy_us"] for thread in work["threads"]) / 1e6


def sum_up(calls: Iterable[dict], limits: Limits) -> dict[str, Kernel]:
    """By name, the longest first."""
    kernels: dict[str, Kernel] = {}
    for call in calls:
        kernels.setdefault(call["name"], Kernel()).add(call, limits)
    return dict(sorted(kernels.items(), key=lambda item: -item[1].seconds))


@dataclass
class Tasks:
    """How many tasks the threads are given at once, in the calls of one kernel."""

    least: int
    most: int
    short: float  # the part of the kernel's flops or, where it has none, bytes, in calls with fewer than two a thread


def tasks_by_kernel(calls: Iterable[dict], threads: int) -> dict[str, Tasks]:
    """Of a call with several rounds it is their average that counts."""
    found: dict[str, list[tuple[float, float]]] = {}
    for call in calls:
        work = call["args"]
        given = sum(thread["tasks"] for thread in work["threads"]) / max(work["rounds"], 1)
        found.setdefault(call["name"], []).append((given, work["flops"] or work["bytes"]))
    tasks = {}
    for name, each in sorted(found.items()):
        short = sum(amount for given, amount in each if given < 2 * threads) / sum(amount for _, amount in each)
        tasks[name] = Tasks(round(min(each)[0]), round(max(each)[0]), short)
    return tasks
