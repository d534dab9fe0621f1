# SPDX-License-Identifier: Apache-2.0
"""Session.pause: what the system counts while a session has no memory, and what it goes on with."""

import json
import subprocess
import sys

import numpy as np
import pytest

import mebp
from mebp.inspect import inspect
from support import models
from support.pipeline import make_bundle

# In a process of its own: prints the resident anonymous bytes and those of weights.bin as they change.
MEASURED = """
import json, re, sys
import numpy as np
import mebp

def resident():
    status, maps = open("/proc/self/status").read(), open("/proc/self/smaps").read()
    weights = sum(int(re.search(r"Rss: +(\\d+)", part)[1]) for part in maps.split("weights.bin\\n")[1:])
    return [1024 * int(re.search(r"RssAnon:\\s+(\\d+)", status)[1]), 1024 * weights]

bundle, folder, batch, sequence, vocabulary = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
ids = np.random.default_rng(0).integers(0, vocabulary, (batch, sequence))
session = mebp.Session(bundle)
session.step(ids, ids)
session.step(ids, ids)
running = resident()
session.pause(folder)
paused = resident()
session.resume()
session.step(ids, ids)
print(json.dumps([running, paused, resident(), session.plan["session_bytes"]]))
"""


@pytest.fixture
def ids(bundle) -> np.ndarray:
    model = inspect(bundle)["model"]
    return np.random.default_rng(1).integers(0, model["vocabulary"], (model["batch"], model["sequence"]))


def test_the_memory_goes_back_to_the_system(tmp_path, show):
    bundle = make_bundle(models.build("llama"), tmp_path, seq_len=512, batch=8)  # what is not the arena is small
    model = inspect(bundle)["model"]
    shape = [str(model[name]) for name in ("batch", "sequence", "vocabulary")]
    command = [sys.executable, "-c", MEASURED, bundle, tmp_path / "state", *shape]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    (running, weights), (paused, paused_weights), (again, _), arena = json.loads(done.stdout)
    show(
        f"a session of {arena / 1e6:.2f} MB: {running / 1e6:.2f} MB of anonymous memory after a step and "
        f"{weights / 1e6:.2f} MB of weights, {paused / 1e6:.2f} and {paused_weights / 1e6:.2f} MB while it is paused, "
        f"{again / 1e6:.2f} MB after the next step"
    )
    assert weights > 0
    assert paused_weights == 0
    assert running - paused > 0.7 * arena  # a step touches most of it, and each page goes


@pytest.mark.parametrize("options", [{}, {"train": "full", "weights": "f32", "optimizer": "galore", "galore_rank": 4}])
def test_a_pause_changes_no_bit(tmp_path, options):
    bundle = make_bundle(models.build("llama"), tmp_path, seq_len=32, batch=2, **options)
    ids = np.random.default_rng(1).integers(0, inspect(bundle)["model"]["vocabulary"], (2, 32))
    through, paused = mebp.Session(bundle, lr=1e-2), mebp.Session(bundle, lr=1e-2)
    for _ in range(3):
        assert paused.step(ids, ids).loss == through.step(ids, ids).loss
        paused.pause(tmp_path / "state", b"mine")
        assert paused.kernels == ""
        paused.resume()
    assert all(np.array_equal(values, paused.trainables()[key]) for key, values in through.trainables().items())
    assert mebp.Session(bundle, lr=1e-2).load_state(tmp_path / "state") == b"mine"


def test_a_paused_session_says_so(bundle, ids, tmp_path):
    session = mebp.Session(bundle)
    with pytest.raises(mebp.Error) as error:
        session.resume()
    assert str(error.value) == "the session is not paused; it has its memory"
    session.pause(tmp_path / "state")
    with pytest.raises(mebp.Error) as error:
        session.step(ids, ids)
    assert str(error.value) == "the session is paused and has no memory; call mebp_session_resume first"
