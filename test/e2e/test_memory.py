# SPDX-License-Identifier: Apache-2.0
"""The planned peak against what the operating system counts while mebp-run trains."""

import subprocess
import time
from pathlib import Path

import numpy as np

import mebp
from mebp.tools import find_tool

STEPS = 3
TOLERANCE = 0.10


def counted_bytes(process: int) -> int:
    """Anonymous memory, and the resident pages of shared writable mappings."""
    total, shared_writable = 0, False
    for line in Path(f"/proc/{process}/smaps").read_text().splitlines():
        field, _, rest = line.partition(":")
        if " " in field:  # a mapping's first line: addresses, permissions, ...
            permissions = line.split()[1]
            shared_writable = "w" in permissions and "s" in permissions
        elif field == ("Rss" if shared_writable else "Anonymous"):
            total += int(rest.split()[0]) * 1024
    return total


def peak_while(command: list[str]) -> int:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peak = 0
    while process.poll() is None:
        try:
            peak = max(peak, counted_bytes(process.pid))
        except (FileNotFoundError, ProcessLookupError):
            break  # it has just ended
        time.sleep(0.002)
    assert process.wait() == 0, process.stderr.read()
    return peak


def test_the_plan_holds(smollm2, tmp_path, show):
    plan = mebp.Session(smollm2.bundle).plan
    tokens = np.random.default_rng(0).integers(0, 49152, (STEPS, 512), dtype=np.int32)
    np.save(tmp_path / "tokens.npy", tokens)
    command = [find_tool("mebp-run"), str(smollm2.bundle), "--tokens", str(tmp_path / "tokens.npy")]
    command += ["--steps", str(STEPS), "--optimizer", "adamw", "--threads", str(plan["threads"])]
    measured = peak_while(command)
    show(
        f"SmolLM2-135M, 512 tokens, adamw: planned {plan['peak_bytes'] / 1e6:.1f} MB, "
        f"measured {measured / 1e6:.1f} MB ({measured / plan['peak_bytes'] - 1:+.1%})"
    )
    assert abs(measured / plan["peak_bytes"] - 1) <= TOLERANCE
