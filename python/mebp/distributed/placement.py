# SPDX-License-Identifier: Apache-2.0
"""Where weights are best read from: a file that every machine maps, or parts that processes send one another.

Terms: t is a block's forward, g what it takes until its region is there; the backward takes twice as long as the
forward, and asks for each region again.

1. Mapped: a step takes what its plan says, where the file stays in the machines' memory. Else each block waits for the
   disk as below, with the disk's rate for g.
2. Sharded: g = bytes (N - 1) / N / rate of the network. It runs beside the block before it, so that what shows of it is
   max(0, g - t) of that block, in both directions.
Rates are measured at the start of the run: one exchange of all processes, and one read of the file. Before that each
machine's file is checked: what is damaged in one would be computed with on all.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.distributed.bundles import check_files
from mebp.distributed.choices import AUTO, OPTIMIZER, WEIGHTS
from mebp.distributed.group import Group
from mebp.extension import load_runtime
from mebp.inspect import inspect
from mebp.words import say

_PROBE = 4 << 20  # bytes


@dataclass(frozen=True)
class Predicted:
    """Seconds of a micro-batch."""

    mapped: float
    sharded: float
    fits: bool  # the file in each machine's memory


def exposed(forward: Sequence[float], gather: Sequence[float]) -> float:
    """Seconds of both directions in which nothing is computed; each block's forward, and its region's way."""
    down = list(zip([0.0, *forward[:-1]], gather, strict=True))
    up = list(zip([2 * each for each in forward[1:]], gather[:-1], strict=True))  # the last region is still there
    return sum(max(0.0, way - computed) for computed, way in down + up)


def predict(
    seconds: float, regions: Sequence[int], ranks: int, network: float, disk: float, memory: float
) -> Predicted:
    """regions: bytes of each block's; network, disk: bytes a second; memory: bytes that a machine has for the file."""
    whole = max(sum(regions), 1)
    forward = [seconds / 3 * each / whole for each in regions]
    fits = whole <= memory
    by_network = exposed(forward, [each * (ranks - 1) / ranks / network for each in regions])
    by_disk = 0.0 if fits else exposed(forward, [each / disk for each in regions])
    return Predicted(seconds + by_disk, seconds + by_network, fits)


def place(group: Group, shard: str, bundle: Path) -> str:
    """What `auto` is; and where weights are to be sharded, says what that costs. The same in all processes. Raises
    mebp.Error where a machine's file is damaged."""
    if shard not in (AUTO, WEIGHTS):
        return shard
    check_files(group, bundle, are_shared=True)
    regions = [size for _, size in load_runtime().Bundle(os.fspath(bundle)).block_regions()]
    plan = inspect(bundle)["plan"]
    beside = group.local_size * plan["peak_bytes"]
    memory = (load_runtime().free_bytes() or 0) - beside
    own = [_network_rate(group), _disk_rate(bundle / "weights.bin"), memory]
    network, disk, memory = group.gather_numbers(own).min(axis=0).tolist()
    found = predict(plan["predicted_seconds"], regions, group.size, network, disk, memory)
    if group.is_first:
        say(f"a batch, predicted: {found.mapped:.3g} s with mapped weights, "
            f"{found.sharded:.3g} s with sharded ones; from the host's memory to a device: there is none")  # fmt: skip
    if shard == WEIGHTS:
        if group.is_first and found.mapped <= found.sharded:
            where = "which stay in memory" if found.fits else "read from the disk"
            say(f"note: without --shard weights it would be as fast or faster, with mapped weights, {where}")
        return shard
    chosen = WEIGHTS if found.sharded < found.mapped else OPTIMIZER
    if group.is_first:
        say(f"--shard auto: {chosen}")
    return chosen


def _network_rate(group: Group) -> float:
    """Bytes a second that a process receives while all exchange."""
    sent, received = (np.zeros((group.size, _PROBE // group.size), np.uint8) for _ in range(2))
    group.exchange(sent, received)  # connections are made
    began = time.perf_counter()
    group.exchange(sent, received)
    return sent.nbytes * (group.size - 1) / group.size / (time.perf_counter() - began)


def _disk_rate(file: Path) -> float:
    """Bytes a second of a part that is not in memory any more, where the system lets go of it."""
    with file.open("rb", buffering=0) as opened:
        size = min(_PROBE, file.stat().st_size)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(opened.fileno(), 0, size, os.POSIX_FADV_DONTNEED)
        began = time.perf_counter()
        opened.read(size)
        return max(size, 1) / (time.perf_counter() - began)
