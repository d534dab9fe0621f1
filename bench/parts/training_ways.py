# SPDX-License-Identifier: Apache-2.0
"""Runs of several ways of training: what each came to by step and by second."""

import argparse
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import mebp


@dataclass(frozen=True)
class Way:
    label: str
    compiled: dict
    rate_factor: float = 1.0  # of the rates that are tried


@dataclass(frozen=True)
class Run:
    """Evaluation losses with the step and the seconds of steps until then."""

    rate: float
    steps: list[int]
    seconds: list[float]
    losses: list[float]
    peak_bytes: int


def read_run(path: Path, rate: float) -> Run:
    steps, seconds, losses, spent, peak = [], [], [], 0.0, 0
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if "eval_loss" in line:
            steps.append(line["step"])
            seconds.append(spent)
            losses.append(line["eval_loss"])
        else:
            spent += line["seconds"]
            peak = max(peak, line["peak_bytes"])
    return Run(rate, steps, seconds, losses, peak)


def parser_of(description: str, folder: str, *, eval_every: int, seq_len: int) -> argparse.ArgumentParser:
    """The options of every bench of ways; `folder`, below the system's temporary one, keeps its runs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--eval", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--eval-every", type=int, default=eval_every)
    parser.add_argument("--eval-tokens", type=int, default=8192)
    parser.add_argument("--seq-len", type=int, default=seq_len)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / folder)
    parser.add_argument("--plot", type=Path)
    return parser


def prepare(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """The exported SmolLM2-135M, and the text that is evaluated on."""
    exported = arguments.folder / "model" / "model.onnx"
    if not exported.exists():
        mebp.export("packaged:smollm2", exported, seq_len=arguments.seq_len)
    return exported, first_tokens(arguments.eval, 4 * arguments.eval_tokens, arguments.folder)


def first_tokens(path: Path, characters: int, folder: Path) -> Path:
    """The beginning of a text, so that an evaluation does not take longer than what it measures."""
    part = folder / f"{path.stem}.eval.txt"
    part.write_text(path.read_text(encoding="utf-8")[:characters], encoding="utf-8")
    return part


def train(name: str, rate: float, bundle: Path, evaluation: Path, arguments: argparse.Namespace) -> Run:
    log = arguments.folder / f"{name}-{rate:g}-{arguments.steps}.jsonl"
    if not log.exists():
        running = log.with_suffix(".running")
        mebp.train(
            bundle,
            data=arguments.data,
            eval=evaluation,
            eval_every=arguments.eval_every,
            steps=arguments.steps,
            lr=rate,
            log=running,
            overwrite=True,
        )
        running.rename(log)
    return read_run(log, rate)


def draw(best: Mapping[str, Run], ways: Mapping[str, Way], path: Path) -> None:
    figure, (by_step, by_second) = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
    for name, run in best.items():
        label = f"{ways[name].label}, lr {run.rate:g}"
        by_step.plot(run.steps, run.losses, marker="o", markersize=3, label=label)
        by_second.plot(run.seconds, run.losses, marker="o", markersize=3)
    by_step.set(xlabel="steps", ylabel="evaluation loss, nats per token")
    by_second.set(xlabel="seconds of steps")
    by_step.legend(frameon=False)
    figure.savefig(path, dpi=150)
