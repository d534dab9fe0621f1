# SPDX-License-Identifier: Apache-2.0
"""What a calibrated cost model predicts for a step, beside the median of nine steps.

    .venv/bin/python bench/prediction.py [--models SmolLM2-135M ...] [--lengths 256 1024] [--precisions f32 bf16]
        [--threads 1 2] [--rates FILE] [--folder DIR] [--markdown docs/measurements.md]

int4 weights, LoRA r=8 on all linear layers, batch 1. `whole` is the plan without a budget, with AdamW; `small` cuts
sequences into chunks and computes three forwards in four again, with SGD. No weight of these models has a size that
calibration times. A shape is drawn at random. MEBP_KERNELS holds all to one family of kernels. Both happen on the same
machine, but not in the same minute: where others work on it, the ratio shows that, too.
"""

import argparse
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from parts.folders import there
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.runs import command, export
from parts.shapes import SHAPES
from parts.speed.machine import label, read_cpu

import mebp
from mebp.calibration import calibrate
from mebp.tools import find_tool, run_tool

STEPS = 9
SMOLLM2 = "SmolLM2-135M"
MODELS = (SMOLLM2, "Qwen2.5-0.5B")
PLANS = {"whole": [], "small": ["--chunk-size", "64", "--checkpoint-spacing", "4", "--loss-columns", "512"]}
OPTIMIZERS = {"whole": "adamw", "small": "sgd"}
MARK = "bench/prediction.py"
HEADER = [
    "| machine | model | tokens | plan | activations | threads | predicted, s | median of 9, s | predicted / median |",
    "| --- | --- | ---: | --- | --- | ---: | ---: | ---: | ---: |",
]
KEYS = 6


@dataclass(frozen=True)
class Case:
    model: str
    length: int
    plan: str
    precision: str

    def options(self) -> list[str]:
        plan = [*PLANS[self.plan], "--optimizer", OPTIMIZERS[self.plan], "--precision", self.precision]
        return ["--seq-len", str(self.length), *plan]


def export_model(name: str, folder: Path, length: int) -> Path:
    """Made once where `folder` stays."""
    exported = folder / name / "onnx" / "model.onnx"
    if exported.exists():
        return exported
    if name in SHAPES:
        return export(name, folder / name, length)
    mebp.export("packaged:smollm2", exported, seq_len=length)
    return exported


def predict(case: Case, exported: Path, threads: int, rates: Path, folder: Path) -> float:
    output = folder / "plan.json"
    plan = ["--threads", str(threads), "--rates", str(rates), "--plan-only", "--plan-json", str(output)]
    run_tool([find_tool("mebpc"), str(exported), *case.options(), *plan])
    found = json.loads(output.read_text())
    assert found["calibrated"]
    return found["predicted_seconds"]


def compile_case(case: Case, exported: Path, folder: Path) -> Path:
    bundle = folder / "prediction.mebp"
    weights = ["--random-weights", "0"] if case.model in SHAPES else []
    run_tool([find_tool("mebpc"), str(exported), "-o", str(bundle), *case.options(), *weights])
    return bundle


def measure(case: Case, bundle: Path, vocabulary: int, threads: int, folder: Path) -> float:
    tokens = folder / "tokens.npy"
    np.save(tokens, np.random.default_rng(0).integers(0, vocabulary, (STEPS, case.length), dtype=np.int32))
    output = run_tool(command(bundle, tokens, "--threads", str(threads), steps=STEPS, optimizer=OPTIMIZERS[case.plan]))
    steps = [json.loads(line) for line in output.splitlines()[:STEPS]]
    return float(np.median([step["seconds"] for step in steps]))


def rows(arguments: argparse.Namespace, rates: Path, folder: Path) -> Iterator[str]:
    longest = max(arguments.lengths)
    cpu, _ = read_cpu()
    for case in itertools.starmap(
        Case, itertools.product(arguments.models, arguments.lengths, arguments.plans, arguments.precisions)
    ):
        exported = export_model(case.model, folder, longest)
        bundle = compile_case(case, exported, folder)
        session = mebp.Session(bundle, forward_only=True)
        machine, vocabulary = label({"cpu": cpu, "kernels": session.kernels}), session.vocabulary
        del session
        for threads in arguments.threads:
            predicted = predict(case, exported, threads, rates, folder)
            median = measure(case, bundle, vocabulary, threads, folder)
            yield (
                f"| {machine} | {case.model} | {case.length:,} | {case.plan} | {case.precision} | {threads} "
                f"| {predicted:.3f} | {median:.3f} | {predicted / median:.2f} |"
            )
        shutil.rmtree(bundle)


def worst(table: list[str]) -> str:
    ratios = [float(row.split("|")[-2]) for row in table[2:]]
    farthest = max(ratios, key=lambda ratio: abs(ratio - 1))
    return f"{len(ratios)} plans, farthest from the median: {farthest:.2f}"


def show(arguments: argparse.Namespace, folder: Path) -> None:
    rates = arguments.rates or folder / "rates.json"
    if not rates.exists():
        calibrate(rates)
    page = arguments.markdown
    table = read_between_marks(page, MARK) if page else []
    for row in rows(arguments, rates, folder):
        print(row, flush=True)
        table = merge_tables(table, [*HEADER, row], KEYS)
        if page:
            write_between_marks(page, MARK, table)
    print(worst(table))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--lengths", nargs="+", type=int, default=[256, 1024], help="tokens of a sequence")
    parser.add_argument("--plans", nargs="+", choices=PLANS, default=list(PLANS))
    parser.add_argument("--precisions", nargs="+", choices=["f32", "bf16"], default=["f32", "bf16"])
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, len(os.sched_getaffinity(0))}))
    parser.add_argument("--rates", type=Path, help="what mebp calibrate wrote, or is to write; else it does so again")
    parser.add_argument(
        "--folder", type=there, help="where exports stay, and bundles lie while they run; a temporary one"
    )
    parser.add_argument("--markdown", type=Path, help="the page that takes the table; rows not measured again stay")
    arguments = parser.parse_args()

    try:
        with tempfile.TemporaryDirectory() as scratch:
            show(arguments, arguments.folder or Path(scratch))
    except (mebp.Error, ValueError) as error:
        sys.stderr.write(f"prediction.py: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
