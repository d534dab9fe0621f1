# SPDX-License-Identifier: Apache-2.0
"""--clip-recompute: the bits of kept gradients without their room, whatever is trained; and what is refused."""

import numpy as np
import pytest

import mebp
from mebp.inspect import inspect
from support import models
from support.commands import mebp as command
from support.commands import refusal
from support.pipeline import make_bundle

FULL = {"train": "full", "weights": "f32", "embedding_weights": "f32", "train_targets": "*"}
WAYS = {
    "adapters": {},
    "whole model": {**FULL},
    "whole model in bf16": {**FULL, "weights": "bf16", "embedding_weights": "bf16"},
    "weights in a file": {**FULL, "spill": "all"},
    "spaced checkpoints": {"checkpoint_spacing": 2, "chunk_size": 7},
    "projected gradients": {"train": "full", "weights": "f32", "optimizer": "galore", "galore_rank": 4},
}


@pytest.mark.parametrize("way", WAYS)
def test_kept_gradients_give_the_same(tmp_path, way):
    bundle = make_bundle(models.build("llama"), tmp_path, seq_len=32, batch=2, **WAYS[way])
    ids = np.random.default_rng(0).integers(0, inspect(bundle)["model"]["vocabulary"], (4, 2, 32))
    shared = {"lr": 1e-2, "return_gradients": False}
    if "galore" in str(WAYS[way]):
        shared["galore_update_interval"] = 2
    kept = mebp.Session(bundle, clip=0.05, **shared)
    twice = mebp.Session(bundle, clip=0.05, clip_recompute=True, **shared)
    unclipped = mebp.Session(bundle, **shared)
    assert twice.plan["session_bytes"] == unclipped.plan["session_bytes"] < kept.plan["session_bytes"]
    for each in ids:
        one, other = kept.step(each, each), twice.step(each, each)
        assert (one.loss, one.grad_norm) == (other.loss, other.grad_norm) and one.grad_norm > 0.05
    assert all(np.array_equal(values, twice.trainables()[key]) for key, values in kept.trainables().items())


def test_the_command(bundle, data, tmp_path):
    arguments = ["train", bundle, "--data", data, "--steps", 3, "--lr", 1e-2]
    for name, more in {"kept": [], "twice": ["--clip-recompute"]}.items():
        run = command(*arguments, "--clip", 0.05, *more, "--adapter-out", tmp_path / name)
        assert run.returncode == 0, run.stderr
    kept, twice = ((tmp_path / name / "adapter_model.safetensors").read_bytes() for name in ("kept", "twice"))
    assert kept == twice
    assert refusal(*arguments, "--clip-recompute") == "mebp: --clip-recompute says how to clip; give --clip X, too"
    assert refusal(*arguments, "--clip", 1, "--clip-recompute", "--optimizer", "mezo") == (
        "mebp: mezo takes losses and no gradient that could be clipped; leave out clip_recompute"
    )
