# SPDX-License-Identifier: Apache-2.0
"""A training step of SmolLM2-135M on 256 tokens: this runtime and PEFT, in turns in one process.

    .venv/bin/python bench/step.py [--precision bf16] [--steps 8]

In turns, because a shared machine's speed changes from minute to minute: each pair of steps gives one ratio.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

import mebp
from mebp.exporter.packaged import unpack

TOKENS = 256
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def make_bundle(folder: Path, precision: str) -> Path:
    mebp.export("packaged:smollm2", folder / "model" / "model.onnx", seq_len=TOKENS)
    mebp.compile(folder / "model" / "model.onnx", folder / "model.mebp", precision=precision)
    return folder / "model.mebp"


def peft_step(precision: str, threads: int):
    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(unpack("packaged:smollm2"), dtype=TYPES[precision])
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4, weight_decay=0.0)

    def step(ids: np.ndarray) -> None:
        tokens = torch.from_numpy(ids)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def seconds(step, ids: np.ndarray) -> float:
    start = time.perf_counter()
    step(ids)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--precision", choices=TYPES, default="bf16")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        bundle = make_bundle(Path(folder), arguments.precision)
        session = mebp.Session(bundle, threads=arguments.threads, optimizer="adamw")
        steps = {
            "mebp": lambda ids: session.step(ids, ids),
            "PEFT": peft_step(arguments.precision, arguments.threads),
        }
        generator = np.random.default_rng(0)
        times = {name: [] for name in steps}
        for index in range(arguments.steps + 1):
            ids = generator.integers(0, session.vocabulary, (1, TOKENS))
            for name, step in steps.items():
                took = seconds(step, ids)
                if index:  # the first warms up
                    times[name].append(took)
    ratios = np.array(times["mebp"]) / np.array(times["PEFT"])
    for name, taken in times.items():
        print(f"{name}: median {np.median(taken):.3f} s a step, {min(taken):.3f} to {max(taken):.3f}")
    print(f"mebp / PEFT: median {np.median(ratios):.2f}, {ratios.min():.2f} to {ratios.max():.2f}, {len(ratios)} pairs")


if __name__ == "__main__":
    main()
