# SPDX-License-Identifier: Apache-2.0
"""How near decoding comes to the rate of memory, and what it does beside a busy process; for bench/generation.py."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
from parts.speed.machine import read_cpu
from parts.speed.rates import find_bench, parse_peaks, run_bench

import mebp

DEPTH, NEW = 16, 64
HEADER = [
    "| machine, kernels | bundle | threads | tokens a second | MB a token | GB/s | memory reads, GB/s | of that "
    "| beside a busy core | one thread there |",
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
]
KEYS = 3


def decode(session: mebp.Session, tokens: int, depth: int = DEPTH) -> float:
    """Seconds of so many tokens, one after another, behind a prompt of `depth`."""
    ids = np.random.default_rng(0).integers(0, session.vocabulary, (1, depth + tokens), dtype=np.int32)
    source = session.keys_and_values()
    source.logits(ids[:, :depth])
    begun = time.perf_counter()
    for position in range(depth + 1, depth + tokens + 1):
        source.logits(ids[:, :position])
    return time.perf_counter() - begun


def bytes_of_token(bundle: Path) -> float:
    """That the kernels of one token read and write at least, as a profile counts them: operands and results once."""

    def moved(tokens: int) -> int:
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.json"
            session = mebp.Session(bundle, generate_only=True, profile=trace)
            decode(session, tokens)
            del session  # writes the end of the file
            calls = [event for event in json.loads(trace.read_text()) if event["cat"] == "kernel"]
            return sum(call["args"]["bytes"] for call in calls)

    return (moved(9) - moved(1)) / 8


@contextmanager
def busy(core: int) -> Iterator[None]:
    command = [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.kill()


def measure_decoding(bundle: Path, threads: int, rounds: int) -> list[str]:
    """A row; each figure is the median of the rounds, which measure all in turn."""
    many, one = (mebp.Session(bundle, generate_only=True, threads=count) for count in (threads, 1))
    ways = {
        "quiet": (many, nullcontext),
        "busy": (many, lambda: busy(max(os.sched_getaffinity(0)))),
        "one": (one, lambda: busy(max(os.sched_getaffinity(0)))),
    }
    for session in (many, one):
        decode(session, NEW)  # the weights are in memory
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    reads = []
    for _ in range(rounds):
        reads.append(parse_peaks(run_bench([find_bench("memory_rate"), str(threads)]))["read"][str(threads)])
        for name, (session, beside) in ways.items():
            with beside():
                speeds[name].append(NEW / decode(session, NEW))
    quiet, beside, alone = (float(np.median(found)) for found in speeds.values())
    moved, memory = bytes_of_token(bundle), float(np.median(reads))
    row = [f"{read_cpu()[0]}, {many.kernels}", bundle.stem, str(threads), f"{quiet:.1f}", f"{moved / 1e6:.1f}"]
    row += [f"{moved * quiet / 1e9:.1f}", f"{memory / 1e9:.1f}", f"{moved * quiet / memory:.0%}"]
    return [*row, f"{beside:.1f}", f"{alone:.1f}"]
