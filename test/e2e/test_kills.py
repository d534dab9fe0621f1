# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed with -9 at random moments go on with the same bits, whatever the optimizer. `make test` kills
each optimizer's run once, `make soak` (MEBP_SOAK) fifty runs."""

import random
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from mebp.extension import load_runtime
from mebp.tools import find_tool
from support import models
from support.commands import TIMEOUT
from support.pipeline import make_bundle
from support.soak import SOAK

OPTIMIZERS = [name for name, _ in load_runtime().optimizers()]
KILLS = 50 if SOAK else len(OPTIMIZERS)
STEPS, SEQUENCE, BATCH = 40, 32, 2
KILLED = -9
# What shows most of an optimizer: every array that it can keep, and more than one refresh.
OPTIONS = {"sgd": ["--momentum", 0.9]}
# Optimizers that have bundles of their own.
PROJECTING = {
    name: {"train": "full", "weights": weights, "optimizer": name, "galore_rank": 4}
    for name, weights in (("galore", "f32"), ("qgalore", "int8"))
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("kills")


@pytest.fixture(scope="module")
def bundles(folder) -> dict[str, Path]:
    """With whole gradients, for "", and with projected ones, by their optimizer."""
    made = {}
    for name, options in {"": {}, **PROJECTING}.items():
        place = folder / f"bundle-{name}"
        place.mkdir()
        made[name] = make_bundle(models.build("llama"), place, seq_len=SEQUENCE, batch=BATCH, **options)
    return made


@pytest.fixture(scope="module")
def tokens(folder) -> Path:
    path = folder / "tokens.npy"
    np.save(path, np.random.default_rng(0).integers(0, 250, (16, SEQUENCE), dtype=np.int32))
    return path


def test_killed_runs_go_on_bitwise(bundles, tokens, folder, show):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    whole: dict[str, tuple[bytes, float]] = {}
    killed = resumed = 0
    for number in range(KILLS):
        name = OPTIMIZERS[number % len(OPTIMIZERS)]
        interval = ["--galore-update-interval", 3 if name == "qgalore" else 7] if name in PROJECTING else []
        bundle = bundles[name if name in PROJECTING else ""]
        command = [find_tool("mebp-run"), bundle, "--tokens", tokens, "--optimizer", name, "--lr", 1e-3,
                   "--steps", STEPS, "--save-every", 1, *OPTIONS.get(name, []), *interval]  # fmt: skip

        def start(state: Path, *more: object, command: list = command) -> subprocess.Popen:
            return subprocess.Popen([*map(str, [*command, "--state", state, *more])], stdout=subprocess.DEVNULL)

        if name not in whole:
            began = time.monotonic()
            assert start(folder / name).wait(TIMEOUT) == 0
            whole[name] = (folder / name / "state.bin").read_bytes(), time.monotonic() - began
        expected, seconds = whole[name]
        state, moment = folder / f"{name}-{number}", chance.uniform(0, seconds)
        print(f"{name}: killed after {moment:.4f} of {seconds:.4f} s")
        process = start(state)
        time.sleep(moment)
        process.kill()
        killed += process.wait() == KILLED
        resumed += (state / "state.bin").exists()
        assert start(state, "--resume").wait(TIMEOUT) == 0
        assert (state / "state.bin").read_bytes() == expected, name
    assert set(whole) == set(OPTIMIZERS)
    show(f"{KILLS} runs of {', '.join(whole)}: {killed} killed before their end, {resumed} with a state; all resumed")
