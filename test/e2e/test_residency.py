# SPDX-License-Identifier: Apache-2.0
"""The weights in memory under --resident-limit, as the operating system counts them while mebp-run trains."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.tools import find_tool

LIMIT = 24 << 20


def resident_weights(process: int) -> int:
    """While the process stands still: what moves during the count would be counted in two places."""
    os.kill(process, signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, process, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        mappings = Path(f"/proc/{process}/smaps").read_text()
    finally:
        os.kill(process, signal.SIGCONT)
    total, counts = 0, False
    for line in mappings.splitlines():
        field, _, rest = line.partition(":")
        if " " in field:  # a mapping's first line: addresses, permissions, ..., the file
            counts = line.endswith("/weights.bin")
        elif counts and field == "Rss":
            total += int(rest.split()[0]) * 1024
    return total


@pytest.fixture
def tokens(tmp_path) -> Path:
    path = tmp_path / "tokens.npy"
    np.save(path, np.random.default_rng(0).integers(0, 49152, (2, 48), dtype=np.int32))
    return path


def train(bundle: Path, tokens: Path, *options: str) -> tuple[list[float], int]:
    """Losses and gradient norms, and the most of the weights that was in memory."""
    command = [find_tool("mebp-run"), str(bundle), "--tokens", str(tokens), "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        most = 0
        while process.poll() is None:
            try:
                most = max(most, resident_weights(process.pid))
            except (FileNotFoundError, ProcessLookupError):
                break  # it has just ended
            time.sleep(0.002)
        output, errors = process.communicate()
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors
    steps = [json.loads(line) for line in output.splitlines()][:-1]
    return [step[name] for step in steps for name in ("loss", "grad_norm")], most


def test_the_limit_holds_and_changes_nothing(smollm2, tokens, tmp_path, show):
    # Other tests read the common file meanwhile, and what they leave in the cache in larger pieces is mapped whole.
    bundle = shutil.copytree(smollm2.bundle, tmp_path / "model.mebp")
    size = (bundle / "weights.bin").stat().st_size
    free, all_weights = train(bundle, tokens)
    limited, most = train(bundle, tokens, "--resident-limit", f"{LIMIT}B")
    show(
        f"SmolLM2-135M, weights of {size / 1e6:.1f} MB: {all_weights / 1e6:.1f} MB of them in memory, "
        f"{most / 1e6:.1f} MB under a limit of {LIMIT / 1e6:.1f} MB"
    )
    assert limited == free
    assert most <= LIMIT < all_weights / 2
    assert most > LIMIT / 2


def test_python_takes_the_limit(smollm2):
    ids = np.random.default_rng(0).integers(0, 49152, (1, 64))
    session = mebp.Session(smollm2.bundle, resident_limit="24MiB")
    assert session.loss(ids, ids) == mebp.Session(smollm2.bundle).loss(ids, ids)
    with pytest.raises(mebp.Error, match="'linear' of block '.*' reads at once; give at least [0-9]+KiB"):
        session.generate(ids[:, :4], max_new_tokens=1)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("24", "resident_limit 24 has no unit"),
        (0, "resident_limit 0B is no memory"),
        (1 << 20, "a resident limit of 1048576 bytes is less than the weights"),
    ],
)
def test_a_limit_that_cannot_be_meant(smollm2, limit, message):
    with pytest.raises(mebp.Error, match=message):
        mebp.Session(smollm2.bundle, resident_limit=limit)
