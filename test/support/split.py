# SPDX-License-Identifier: Apache-2.0
"""A tiny model in one process, and in two halves."""

import subprocess
from pathlib import Path

import numpy as np

import mebp
from mebp.compile_options import as_arguments
from mebp.compiler import remote_options
from mebp.remote_adapters.middle import RemoteAdapter
from mebp.tools import find_tool
from support import models
from support.commands import TIMEOUT
from support.exports import keep
from support.textmodel import make_text_bundle

SEQUENCE, BATCH, LAYERS = 40, 2, 4
PRIVATE = mebp.PrivateLoRA(rank_down=5, rank_up=7)
STEPS = 4


def compile_both(folder, precision: str = "f32", kept: tuple[int, int] = (0, 0), *more: str,
                 adapter: RemoteAdapter = PRIVATE, positions: int = 48, family: str = "llama"):  # fmt: skip
    """The same module in one process, and in two halves."""
    model = folder / "model.onnx"
    if not model.exists():
        layers = {"num_hidden_layers": LAYERS} if family == "llama" else {}  # others have lists of their layers
        mebp.export(models.build(family, **layers), model, seq_len=SEQUENCE, batch=BATCH)
    options = [*as_arguments(remote_options(adapter)), f"--precision={precision}", "--threads=1",
               f"--generate-len={positions}", *more]  # fmt: skip
    name = folder / f"{precision}-{kept[0]}-{kept[1]}.mebp"
    halves = [f"--split={adapter.kind}", f"--device-first={kept[0]}", f"--device-last={kept[1]}"]
    for extra in ([], halves):
        subprocess.run([find_tool("mebpc"), model, "-o", name, *options, *extra], check=True, timeout=TIMEOUT)
    return name, name.with_suffix(".edge.mebp"), name.with_suffix(".cloud.mebp")


def make_text_halves() -> tuple[Path, Path, Path]:
    """Of a model that reads text, made once in a session of tests."""

    def make(folder: Path) -> None:
        make_text_bundle(folder, layers=3)
        options = [*as_arguments(remote_options(PRIVATE)), "--precision=f32", "--generate-len=48"]
        for extra in ([], ["--split=private-lora"]):
            command = [find_tool("mebpc"), folder / "model.onnx", "-o", folder / "whole.mebp", *options, *extra]
            subprocess.run(command, check=True, timeout=TIMEOUT)

    whole = keep("text-halves", make) / "whole.mebp"
    return whole, whole.with_suffix(".edge.mebp"), whole.with_suffix(".cloud.mebp")


def tokens(session: mebp.Session, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    ids = np.random.default_rng(seed).integers(0, session.vocabulary, (BATCH, 33), dtype=np.int32)
    labels = ids.copy()
    labels[0, :9] = -100
    labels[:, 20] = -100
    return ids, labels


def trained(bundle, stream=None, steps: int = STEPS, **options) -> dict[str, np.ndarray]:
    session = mebp.Session(bundle, stream=stream, threads=1, **{"lr": 5e-2} | options)
    for step in range(steps):
        session.step(*tokens(session, step))
    return session.trainables()


def same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[key], right[key]) for key in left)
