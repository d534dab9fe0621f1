# SPDX-License-Identifier: Apache-2.0
"""From a shape to a bundle with random weights, and mebp-run on it."""

import json
from pathlib import Path

import numpy as np
from parts.shapes import LARGE, SHAPES, VOCABULARY

import mebp
from mebp.tools import find_tool

STEPS = 2  # the first step also pays for what is made once


def export(name: str, folder: Path, length: int) -> Path:
    """The shape's graph, without weights, for sequences up to `length`."""
    config, exported = folder / "config", folder / "onnx" / "model.onnx"
    (SHAPES | LARGE)[name].write_config(config)
    mebp.export(config, exported, seq_len=length, shape_only=True)
    return exported


def compile_random(exported: Path, bundle: Path, length: int, **options) -> None:
    mebp.compile(exported, bundle, seq_len=length, random_weights=0, **{"optimizer": "sgd", **options})


def write_tokens(path: Path, length: int, rows: int = STEPS, vocabulary: int = VOCABULARY) -> Path:
    np.save(path, np.random.default_rng(0).integers(0, vocabulary, (rows, length), dtype=np.int32))
    return path


def command(bundle: Path, tokens: Path, *options: str, steps: int = STEPS, optimizer: str = "sgd") -> list[str]:
    arguments = ["--tokens", str(tokens), "--steps", str(steps), "--optimizer", optimizer, "--json", *options]
    return [find_tool("mebp-run"), str(bundle), *arguments]


def last_step(output: str) -> dict:
    """What mebp-run says of its last step, and at its end."""
    step, end = map(json.loads, output.splitlines()[-2:])
    return step | end
