# SPDX-License-Identifier: Apache-2.0
"""Fills a folder with bundles of tiny models, as mebpc makes them: what every backend has to agree on.

make_bundles.py MEBPC FOLDER
"""

import subprocess
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import mebp
from support.models import build

WEIGHTS = ("f32", "bf16", "int8", "int4", "int4-sym")
# Beside llama, for what it lacks: norms of heads and sliding windows; layer norms, biases, positions and erf; states
# that are carried from row to row. Several samples in a row, too.
OTHERS = ("gemma3_text", "gpt2", "lfm2")
CHUNK = 7  # which divides no length of a step


def compile_model(mebpc: str, model: Path, bundle: Path, *options: object) -> None:
    # Small tiles, so that the loss has several. Texts that go around the ring of 64 that a sliding window keeps.
    given = ["--seq-len", 32, "--batch", 2, "--loss-rows", 16, "--loss-columns", 64, "--generate-len", 100, *options]
    subprocess.run([mebpc, model, "-o", bundle, *map(str, given)], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    mebpc, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    models = {}
    for family in ("llama", *OTHERS):
        models[family] = folder / family / "model.onnx"
        models[family].parent.mkdir(parents=True)
        mebp.export(build(family), models[family], seq_len=32, batch=2)
    for chunk, name in ((0, "whole"), (CHUNK, "chunks")):
        for weights in WEIGHTS:
            options = ("--weights", weights, "--precision", "f32", "--chunk-size", chunk)
            compile_model(mebpc, models["llama"], folder / f"llama-{weights}-{name}.mebp", *options)
        options = ("--weights", "int4", "--precision", "bf16", "--chunk-size", chunk)
        compile_model(mebpc, models["llama"], folder / f"llama-int4-in-bf16-{name}.mebp", *options)
        options = ("--weights", "int4", "--precision", "f32", "--chunk-size", chunk, "--lora-targets", "q_proj,lm_head")
        compile_model(mebpc, models["llama"], folder / f"llama-head-{name}.mebp", *options)
        for family in OTHERS:
            options = ("--weights", "int4", "--precision", "f32", "--chunk-size", chunk, "--packing")
            compile_model(mebpc, models[family], folder / f"{family}-int4-{name}.mebp", *options)


main()
