# SPDX-License-Identifier: Apache-2.0
"""A model at a length: all contenders are loaded, and then make their steps in turns.

In turns, because a shared machine's speed changes from minute to minute: each round gives one ratio of each pair. Every
other round goes backwards, so that nobody always follows the same one.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from parts.process_memory import AnonymousPeak
from parts.runs import command
from parts.speed.arithmetic import layer_linears, needed_arithmetic
from parts.speed.contender import contender
from parts.speed.models import Model
from parts.speed.rates import measure_linears, measure_peaks
from parts.speed.trace import seconds_by_kind

PARTS = ("peft", "mezo", "kernels", "opening", "rates")
MEBP, MEZO, FORWARD = "mebp", "mebp, MeZO", "mebp, forward alone"
TRACED, ONE_THREAD = "mebp, traced", "mebp, traced, one thread"
OPENING = "mebp-run, from its start to its end"
CHECKPOINTING, TORCH_MEZO = "PEFT, checkpointing", "torch, MeZO"
PEFT = {
    "PEFT": [],
    CHECKPOINTING: ["checkpointing"],
    "PEFT, no autocast": ["no-autocast"],
    "PEFT, checkpointing, no autocast": ["checkpointing", "no-autocast"],
}
CHECKPOINTING_F32 = "PEFT in f32, checkpointing"
PEFT_F32 = {"PEFT in f32": ["f32"], CHECKPOINTING_F32: ["f32", "checkpointing"]}
MATMUL, LINEARS, PEAKS = "torch, matmul", "mebp, linear kernels", "registers alone"
LEAST_ROUNDS = 2
Turn = Callable[[], dict]


@dataclass(frozen=True)
class Run:
    """What is measured of each cell, and for how long: rounds until `seconds` are over, at most `rounds`."""

    parts: list[str]
    threads: int
    rounds: int
    seconds: float
    has_bf16: bool = True  # torch has instructions for it; without them PEFT's steps in bf16 take minutes
    settings: list[str] | None = None  # those of PEFT's that are measured; None: all


def peft_settings(has_bf16: bool, named: list[str] | None = None) -> dict[str, list[str]]:
    """What PEFT is measured with, with the options of torch_steps. `named`: some of them; None: all."""
    known = PEFT if has_bf16 else PEFT_F32
    for name in named or ():
        if name not in known:
            raise ValueError(f"--settings {name}: is none of {', '.join(known)}; name some of these")
    return {name: options for name, options in known.items() if named is None or name in named}


def shapes(config: dict) -> dict[str, list[str]]:
    """The layers of each INPUTSxOUTPUTS, the head's last."""
    linears = layer_linears(config) | {"lm_head": (config["hidden_size"], config["vocab_size"])}
    layers: dict[str, list[str]] = {}
    for name, (inputs, outputs) in linears.items():
        layers.setdefault(f"{inputs}x{outputs}", []).append(name)
    return layers


def measure_cell(model: Model, tokens: int, run: Run, folder: Path) -> dict:
    """Everything as it was measured, for JSON: `answers` has one of each round for each who took turns."""
    bundle = model.compile(folder / "speed.mebp", tokens)
    traces = {TRACED: folder / "all.json", ONE_THREAD: folder / "one.json"} if "kernels" in run.parts else {}
    with ExitStack() as stack:
        turns: dict[str, Turn] = {}
        for name, arguments in loaded_once(model, bundle, tokens, run, traces).items():
            say(f"{model.name}, {tokens} tokens: {name}")
            turns[name] = stack.enter_context(contender(arguments))
            turns[name]()  # warms up
        turns |= started_anew(model, bundle, tokens, run, folder)
        answers = take_turns(turns, run, f"{model.name}, {tokens} tokens")
    rounds = len(answers[MEBP])
    return {
        "model": model.name,
        "tokens": tokens,
        "threads": run.threads,
        "shapes": shapes(model.config),
        "needed": asdict(needed_arithmetic(model.config, tokens)),
        "answers": answers,
        "profiles": {name: seconds_by_kind(trace, rounds + 1)[1:] for name, trace in traces.items()},
    }


def take_turns(turns: dict[str, Turn], run: Run, what: str) -> dict[str, list[dict]]:
    answers: dict[str, list[dict]] = {name: [] for name in turns}
    end = time.monotonic() + run.seconds
    for number in range(run.rounds):
        if number >= LEAST_ROUNDS and time.monotonic() > end:
            break
        say(f"{what}: round {number + 1}")
        for name in list(turns)[:: -1 if number % 2 else 1]:
            answers[name].append(turns[name]())
    return answers


def loaded_once(model: Model, bundle: Path, tokens: int, run: Run, traces: dict[str, Path]) -> dict[str, list[str]]:
    """The commands of the processes that load once, by their names in tables."""

    def mebp(kind: str, *trace: Path, threads: int = run.threads) -> list[str]:
        return steps("mebp_steps", threads, "cpu", kind, bundle, tokens, *trace)

    def torch(kind: str, *arguments: object) -> list[str]:
        return steps("torch_steps", run.threads, "cpu", kind, *arguments)

    precision = [] if run.has_bf16 else ["f32"]
    found = {MEBP: mebp("adamw")}
    if "peft" in run.parts:
        settings = peft_settings(run.has_bf16, run.settings)
        found |= {name: torch("peft", model.weights, tokens, *options) for name, options in settings.items()}
    if "mezo" in run.parts:
        of_torch = torch("mezo", model.weights, tokens, *precision)
        found |= {MEZO: mebp("mezo"), FORWARD: mebp("forward"), TORCH_MEZO: of_torch}
    if "kernels" in run.parts:
        found |= {TRACED: mebp("adamw", traces[TRACED]), ONE_THREAD: mebp("adamw", traces[ONE_THREAD], threads=1)}
    if "rates" in run.parts:
        found[MATMUL] = torch("matmul", tokens, *shapes(model.config), *precision)
    return found


def started_anew(model: Model, bundle: Path, tokens: int, run: Run, folder: Path) -> dict[str, Turn]:
    """The turns of programs that start and end with each of them."""
    found: dict[str, Turn] = {}
    if "opening" in run.parts:
        ids = np.random.default_rng(0).integers(0, model.config["vocab_size"], (1, tokens), dtype=np.int32)
        np.save(folder / "tokens.npy", ids)
        found[OPENING] = lambda: open_and_step(bundle, folder / "tokens.npy", run.threads)
    if "rates" in run.parts:
        found[LINEARS] = lambda: {"flops": measure_linears(list(shapes(model.config)), tokens, run.threads)}
        found[PEAKS] = lambda: {"flops": measure_peaks(run.threads)}
    return found


def open_and_step(bundle: Path, tokens: Path, threads: int) -> dict:
    """mebp-run with one step of AdamW, as a process's start and end are seen from outside."""
    arguments = command(bundle, tokens, "--threads", str(threads), steps=1, optimizer="adamw")
    start = time.perf_counter()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    with AnonymousPeak(process.pid) as peak:
        status = process.wait()
    seconds = time.perf_counter() - start
    if status != 0:
        raise RuntimeError(f"mebp-run ended with status {status}")
    return {"seconds": seconds, "peak_bytes": peak.bytes}


def steps(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"parts.speed.{module}", *map(str, arguments)]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
