# SPDX-License-Identifier: Apache-2.0
"""Steps whose threads have a core each, where the last thread may be slowed; for bench/slow_core.py.

    PYTHONPATH=bench python -m parts.speed.slowed_steps LIBRARY SHARE CORE[,CORE] BUNDLE TOKENS

LIBRARY is slow_thread of bench/kernels; SHARE is what the last thread keeps of its time, 1 for all.
"""

import ctypes
import os
import sys
from pathlib import Path

import numpy as np
from parts.speed.contender import serve

import mebp


def cpu_times() -> dict[int, int]:
    """Ticks that each thread of this process has computed."""
    times = {}
    for task in os.listdir("/proc/self/task"):
        fields = Path(f"/proc/self/task/{task}/stat").read_text().rpartition(")")[2].split()
        times[int(task)] = int(fields[11]) + int(fields[12])
    return times


def main() -> None:
    library, share, listed, bundle, tokens = sys.argv[1:]
    cores = [int(core) for core in listed.split(",")]
    session = mebp.Session(bundle, threads=len(cores), optimizer="adamw", return_gradients=False)
    ids = np.random.default_rng(0).integers(0, session.vocabulary, (1, int(tokens)))
    session.step(ids, ids)
    before = cpu_times()
    session.step(ids, ids)
    spent = {task: time - before.get(task, 0) for task, time in cpu_times().items()}
    computing = sorted(sorted(spent, key=spent.get)[-len(cores) :])  # the process's own comes first
    for task, core in zip(computing, cores, strict=True):
        os.sched_setaffinity(task, {core})

    def keep(part: float) -> None:
        if not ctypes.CDLL(library).slowThread(computing[-1], ctypes.c_double(part)):
            raise RuntimeError("the system gives no timer for a thread")

    def step() -> dict:
        keep(float(share))
        session.step(ids, ids)
        keep(1)  # its core is another's now
        return {"kernels": session.kernels}

    serve(step)


if __name__ == "__main__":
    main()
