# SPDX-License-Identifier: Apache-2.0
"""Generating text: the same tokens as transformers', and how fast beside llama.cpp, in turns.

    .venv/bin/python bench/generation.py text [--prompts 20] [--new 64]
    .venv/bin/python bench/generation.py speed NAME.mebp MODEL.gguf ... --llama FOLDER [--rounds 5] [--threads 2]
        [--markdown docs/generation.md]
    .venv/bin/python bench/generation.py memory NAME.mebp ... [--rounds 5] [--threads 2] [--markdown docs/generation.md]

`text` compiles SmolLM2 in f32 and compares greedy answers with transformers on the same dequantised weights; it ends
with status 1 where one differs. `speed` takes the folder of a llama.cpp whose bench.py prints lines such as
"smollm2-q4_0 zen4 t2 pp256: 989.0 tok/s" (its own virtual environment in LLAMA_BENCH). Each has its turn in a round,
and only speeds of one round make a ratio. The bundle has an adapter, which is computed, too. `memory` shows how near
decoding comes to the rate at which memory is read, and its speed while another process keeps a core busy. It needs the
program memory_rate: cmake -B build -DMEBP_BUILD_BENCH=ON && cmake --build build.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from parts.decoding_rate import DEPTH, NEW, decode, measure_decoding
from parts.decoding_rate import HEADER as MEMORY_HEADER
from parts.decoding_rate import KEYS as MEMORY_KEYS
from parts.pages import merge_tables, read_between_marks, write_between_marks
from parts.questions import QUESTIONS
from parts.speed.machine import read_cpu
from parts.spread import Spread

import mebp
from mebp.tokenizer import Tokenizer

PROMPTS = (256, 1024)
FIGURES = {
    **{f"pp{length}": f"prompt of {length}" for length in PROMPTS},
    "tg": f"{NEW} new tokens after {DEPTH}",
}
MARK, MEMORY_MARK = "bench/generation.py", "bench/generation.py: memory"
HEADER = [
    "| machine, kernels | model | llama.cpp's file | threads | tokens | mebp, a second | llama.cpp | ratio | range |",
    "| --- | --- | --- | ---: | --- | ---: | ---: | ---: | ---: |",
]
KEYS = 5


def compare_text(arguments: argparse.Namespace, folder: Path) -> int:
    import torch
    from transformers import AutoModelForCausalLM

    from mebp.chat import Chat
    from mebp.exporter.packaged import unpack

    mebp.export("packaged:smollm2", folder / "model.onnx", seq_len=64)
    bundle = folder / "model.mebp"
    mebp.compile(folder / "model.onnx", bundle, precision="f32", generate_len=256)
    session = mebp.Session(bundle, generate_only=True)
    model = (
        AutoModelForCausalLM.from_pretrained(unpack("packaged:smollm2"), trust_remote_code=False, use_safetensors=True)
        .float()
        .eval()
    )
    model.load_state_dict(
        {name: torch.from_numpy(value) for name, value in session.base_weights().items()}, strict=False
    )
    tokenizer = Tokenizer(bundle)
    chat, same = Chat(tokenizer), 0
    for question in QUESTIONS[: arguments.prompts]:
        ids = np.array([tokenizer.encode(chat.prompt(question))])
        mine = session.generate(ids, max_new_tokens=arguments.new)
        theirs = model.generate(
            torch.from_numpy(ids), max_new_tokens=arguments.new, do_sample=False, eos_token_id=None, pad_token_id=0
        ).numpy()
        same += (mine == theirs).all()
        if (mine != theirs).any():
            print(f"{question} differs at new token {int((mine != theirs)[0].argmax()) - ids.shape[1]}")
    print(f"{same} of {min(arguments.prompts, len(QUESTIONS))} answers of {arguments.new} tokens are transformers'")
    return int(same < min(arguments.prompts, len(QUESTIONS)))


def measure_here(session: mebp.Session) -> dict[str, float]:
    """Tokens a second of prompts and of one token after another."""
    random = np.random.default_rng(0)
    speeds = {}
    for length in PROMPTS:
        ids = random.integers(0, session.vocabulary, (1, length), dtype=np.int32)
        source = session.keys_and_values()
        begun = time.perf_counter()
        source.logits(ids)
        speeds[f"pp{length}"] = length / (time.perf_counter() - begun)
    return speeds | {"tg": NEW / decode(session, NEW)}


def measure_llama(folder: Path, model: str, threads: int) -> dict[str, float]:
    home = Path(os.environ.get("LLAMA_BENCH", Path.home() / ".cache" / "llama-bench"))
    command = [str(home / "venv/bin/python"), str(folder / "bench.py"), model, "--threads", str(threads), "--reps", "1"]
    command += ["--pp", ",".join(map(str, PROMPTS)), "--depth", str(DEPTH), "--gen", str(NEW)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r" (pp|tg)\D*(\d*).*?: ([\d.]+) tok/s", printed)
    return {f"pp{size}" if kind == "pp" else "tg": float(speed) for kind, size, speed in found}


def compare_speed(arguments: argparse.Namespace) -> int:
    session = mebp.Session(arguments.bundle, generate_only=True, threads=arguments.threads)
    measure_here(session)  # the weights are in memory, and the memory is there
    mine: list[dict[str, float]] = []
    theirs: dict[str, list[dict[str, float]]] = {model: [] for model in arguments.models}
    for _ in range(arguments.rounds):
        mine.append(measure_here(session))
        for model, runs in theirs.items():
            runs.append(measure_llama(arguments.llama, model, arguments.threads))
    machine = f"{read_cpu()[0]}, {session.kernels}"
    rows = []
    for model, runs in theirs.items():
        for figure, name in FIGURES.items():
            ratio = Spread.of(here[figure] / there[figure] for here, there in zip(mine, runs, strict=True))
            digits = 0 if figure != "tg" else 1
            speeds = [f"{statistics.median(run[figure] for run in side):.{digits}f}" for side in (mine, runs)]
            cells = [machine, arguments.bundle.stem, Path(model).stem, str(arguments.threads), name, *speeds]
            cells += [f"{ratio.median:.2f}", ratio.extent()]
            rows.append(f"| {' | '.join(cells)} |")
    publish([*HEADER, *rows], arguments.markdown, MARK, KEYS)
    return 0


def compare_with_memory(arguments: argparse.Namespace) -> int:
    rows = [measure_decoding(bundle, arguments.threads, arguments.rounds) for bundle in arguments.bundles]
    table = [*MEMORY_HEADER, *(f"| {' | '.join(row)} |" for row in rows)]
    publish(table, arguments.markdown, MEMORY_MARK, MEMORY_KEYS)
    return 0


def publish(table: list[str], page: Path | None, mark: str, keys: int) -> None:
    print("\n".join(table))
    if page:
        write_between_marks(page, mark, merge_tables(read_between_marks(page, mark), table, keys))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    text = parts.add_parser("text")
    text.add_argument("--prompts", type=int, default=len(QUESTIONS))
    text.add_argument("--new", type=int, default=NEW)
    speed = parts.add_parser("speed")
    speed.add_argument("bundle", type=Path, help="compiled with --generate-len of at least 1,100")
    speed.add_argument("models", nargs="*", help="GGUF files")
    speed.add_argument("--llama", type=Path, help="the folder of llama.cpp's bench.py")
    speed.add_argument("--rounds", type=int, default=5)
    speed.add_argument("--threads", type=int, default=2)
    speed.add_argument("--markdown", type=Path, help="the page that takes the table; rows not measured again stay")
    memory = parts.add_parser("memory")
    memory.add_argument("bundles", type=Path, nargs="+", help="compiled with --generate-len of at least 80")
    memory.add_argument("--rounds", type=int, default=5)
    memory.add_argument("--threads", type=int, default=2)
    memory.add_argument("--markdown", type=Path, help="the page that takes the table; rows not measured again stay")
    arguments = parser.parse_args()
    if arguments.part == "memory":
        try:
            return compare_with_memory(arguments)
        except (mebp.Error, OSError, RuntimeError, ValueError) as error:
            sys.stderr.write(f"generation.py: {error}\n")
            return 2
    if arguments.part == "speed":
        return compare_speed(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return compare_text(arguments, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
