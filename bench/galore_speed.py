# SPDX-License-Identifier: Apache-2.0
"""A step of GaLore and of Q-GaLore beside LoRA's, and what their refreshes take of a period.

    .venv/bin/python bench/galore_speed.py [--length 256] [--rounds 12] [--interval 200]

SmolLM2-135M in bf16 (Q-GaLore's in int8), rank 64, LoRA of rank 8, AdamW's states, batch 1. Sessions take steps in
turns; a ratio is of one turn. A refresh is what the step that has one takes more than the median of those that have
none.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from parts.spread import Spread

import mebp
from mebp.tables import Table

PROJECTED = {"train": "full", "galore_rank": 64}
WAYS = {
    "LoRA": {"weights": "bf16"},
    "GaLore": PROJECTED | {"weights": "bf16", "optimizer": "galore"},
    "Q-GaLore": PROJECTED | {"weights": "int8", "optimizer": "qgalore"},
}
VOCABULARY = 49152  # SmolLM2's


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--interval", type=int, default=200)
    arguments = parser.parse_args()
    ids = np.random.default_rng(0).integers(0, VOCABULARY, (1, arguments.length), dtype=np.int32)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exported = folder / "smollm2" / "model.onnx"
        mebp.export("packaged:smollm2", exported, seq_len=arguments.length)
        sessions = {}
        for index, (way, options) in enumerate(WAYS.items()):
            bundle = folder / f"{index}.mebp"
            mebp.compile(exported, bundle, seq_len=arguments.length, **options)
            sessions[way] = mebp.Session(bundle, lr=1e-5)
        first = {way: session.step(ids, ids).seconds for way, session in sessions.items()}  # looks for subspaces
        turns = [
            {way: session.step(ids, ids).seconds for way, session in sessions.items()} for _ in range(arguments.rounds)
        ]
    rows = []
    for way in WAYS:
        step = Spread.of(turn[way] for turn in turns)
        beside = Spread.of(turn[way] / turn["LoRA"] for turn in turns)
        row = [way, f"{step.median:.3f}", step.extent(3), f"{beside.median:.2f}", beside.extent()]
        refresh = first[way] - step.median if way != "LoRA" else 0.0
        share = 100 * refresh / (refresh + arguments.interval * step.median)
        rows.append([*row, *([f"{refresh:.2f}", f"{share:.1f} %"] if way != "LoRA" else ["", ""])])
    heads = ["", "step, s", "spread", "of LoRA's", "spread", "refresh, s", f"of {arguments.interval} steps"]
    print(Table(f"SmolLM2-135M, {arguments.length} tokens", heads, rows))


if __name__ == "__main__":
    main()
