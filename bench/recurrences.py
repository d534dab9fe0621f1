# SPDX-License-Identifier: Apache-2.0
"""Shapes whose layers are of several kinds: of one that carries states its peaks as the system counts them, and its
speed beside PEFT; of larger ones plans.

    .venv/bin/python bench/recurrences.py [--parts memory plans speed] [--rounds 4] [--folder DIR]
        [--markdown docs/memory.md docs/recurrences.md]

Measured is Qwen3.5-0.8B's shape, with random weights (int4 here, bf16 in torch), bf16 activations, LoRA r=8 on all
linear layers, batch 1; SGD for memory and plans, AdamW for speed. A plan needs no weights. transformers computes
recurrences by its torch functions on a CPU. Contenders are loaded once and make their steps in turns; each round gives
a ratio.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from parts.decoding_rate import decode as decode_tokens
from parts.folders import there
from parts.memory.optimizers import sampled
from parts.memory.report import megabytes
from parts.pages import find_page, merge_tables, read_between_marks, write_between_marks
from parts.public_shapes import SHAPES as PUBLIC_SHAPES
from parts.runs import command, compile_random, write_tokens
from parts.shapes import HYBRIDS
from parts.speed.cell import CHECKPOINTING, MEBP, Run, loaded_once, take_turns
from parts.speed.contender import contender
from parts.speed.machine import available_cores, read_cpu
from parts.speed.models import Model, prepare
from parts.spread import Spread
from public_shapes import EXPORTED, plan

import mebp

NAME = "Qwen3.5-0.8B"
PLANS = (
    (256, {}),
    (1024, {}),
    (1024, {"chunk_size": 256, "checkpoint_spacing": 5}),
    (4096, {"chunk_size": 128}),
)
PLANNED = ("Qwen3.5-2B", "Qwen3.5-4B", "Gemma-4-E2B")
PLANNED_LENGTHS = (256, 1024, 4096)
SCHEDULES = {"no budget": (), "chunks of 128": ("--chunk-size", "128")} | {
    "chunks of 256, every fifth input": ("--chunk-size", "256", "--checkpoint-spacing", "5")
}
LENGTHS, LONGEST = (256, 1024), 4096
PROMPT, NEW = 256, 64
KEYS = {"memory": 3, "plans": 2, "speed": 3}  # the first cells of a row, which say what was measured


def measure_memory(model: Model, folder: Path) -> list[str]:
    """Markdown, a line each."""
    lines = [
        "| shape | tokens | plan with | plan | at every kernel call | polled |",
        "| --- | ---: | --- |" + " ---: |" * 3,
    ]
    for length, options in PLANS:
        bundle = folder / "memory.mebp"
        compile_random(model.exported, bundle, length, **options)
        tokens = write_tokens(folder / "tokens.npy", length, vocabulary=model.config["vocab_size"])
        found = sampled(command(bundle, tokens))
        said = ", ".join(f"`--{key.replace('_', '-')} {value}`" for key, value in options.items()) or "no budget"
        sizes = (found["planned"], found["sampled"], found["polled"].written)
        lines.append(f"| {NAME} | {length:,} | {said} | " + " | ".join(map(megabytes, sizes)) + " |")
        print(lines[-1], flush=True)
        shutil.rmtree(bundle)
    return lines


def list_plans(folder: Path) -> list[str]:
    """Markdown, a line each."""
    lines = [
        "| shape | tokens | weights, mapped | " + " | ".join(SCHEDULES) + " |",
        "| --- |" + " ---: |" * (2 + len(SCHEDULES)),
    ]
    for name in PLANNED:
        config = folder / f"{name}-config"
        if name in HYBRIDS:
            HYBRIDS[name].write_config(config)
        else:
            config.mkdir()
            (config / "config.json").write_text(json.dumps(PUBLIC_SHAPES[name]))
        exported = folder / f"{name}-onnx" / "model.onnx"
        mebp.export(config, exported, seq_len=EXPORTED, shape_only=True)
        for length in PLANNED_LENGTHS:
            found = [plan(exported, length, "--optimizer", "sgd", *options) for options in SCHEDULES.values()]
            peaks = " | ".join(megabytes(each["peak_bytes"]) for each in found)
            lines.append(f"| {name} | {length:,} | {megabytes(found[0]['weights_bytes'])} | {peaks} |")
            print(lines[-1], flush=True)
    return lines


def measure_speed(model: Model, folder: Path, rounds: int) -> list[str]:
    """Markdown, a line each."""
    lines = ["| machine | shape | what | mebp | PEFT | PEFT, checkpointing | ratio | range |"]
    lines.append("| --- | --- | --- |" + " ---: |" * 5)
    run = Run(["peft"], available_cores(), rounds, seconds=600)
    machine = f"{read_cpu()[0]}, {run.threads} cores"
    for length in LENGTHS:
        bundle = model.compile(folder / "speed.mebp", length, generate_len=PROMPT + NEW)
        calls = loaded_once(model, bundle, length, run, {})
        answers = step_in_turns({name: calls[name] for name in (MEBP, "PEFT", CHECKPOINTING)}, run, length)
        ratio = Spread.of(min(others) / mine for mine, *others in zip(*answers.values(), strict=True))
        cells = [f"{statistics.median(times):.2f} s" for times in answers.values()]
        cells += [f"{ratio.median:.2f}", ratio.extent()]
        lines.append(f"| {machine} | {NAME} | a step of {length:,} tokens | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
        if length == LENGTHS[0]:
            decoding = decode(bundle)
        shutil.rmtree(bundle)
    lines.append(f"| {machine} | {NAME} | a new token after {PROMPT} | {decoding:.1f} a second | | | | |")
    print(lines[-1], flush=True)
    return lines


def step_in_turns(calls: dict[str, list[str]], run: Run, length: int) -> dict[str, list[float]]:
    """Seconds of each round."""
    with ExitStack() as stack:
        turns = {name: stack.enter_context(contender(call)) for name, call in calls.items()}
        for turn in turns.values():
            turn()  # warms up
        answers = take_turns(turns, run, f"{NAME}, {length} tokens")
    return {name: [answer["seconds"] for answer in each] for name, each in answers.items()}


def decode(bundle: Path) -> float:
    """New tokens a second."""
    session = mebp.Session(bundle, generate_only=True)
    return NEW / decode_tokens(session, NEW, PROMPT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=KEYS, default=list(KEYS), help="what to measure; all of it")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--folder", type=there, help="keeps the model for the next run; a temporary one, on a disk")
    parser.add_argument("--markdown", nargs="+", type=Path, default=[], metavar="PAGE", help="the pages of the tables")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        folder = Path(scratch)
        model = prepare(NAME, arguments.folder or folder, LONGEST) if set(arguments.parts) - {"plans"} else None
        ways = {
            "memory": lambda: measure_memory(model, folder),
            "plans": lambda: list_plans(folder),
            "speed": lambda: measure_speed(model, folder, arguments.rounds),
        }
        for part in arguments.parts:
            table = ways[part]()
            if arguments.markdown:
                mark = f"bench/recurrences.py: {part}"
                page = find_page(arguments.markdown, mark)
                write_between_marks(page, mark, merge_tables(read_between_marks(page, mark), table, KEYS[part]))


if __name__ == "__main__":
    main()
