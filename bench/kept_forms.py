# SPDX-License-Identifier: Apache-2.0
"""What a base takes in each form in which people keep it, trained as it lies: SmolLM2-135M.

    .venv/bin/python bench/kept_forms.py ../shared/data/wikitext-2/test.txt [--rounds 5] [--markdown docs/adapters.md]

The packaged file has the model in Q4_1 and Q8_0; mebp, MLX-LM and bitsandbytes make the other forms of its numbers. The
loss is the mean over rows of 256 tokens of the text with activations in f32, beside that of the form's own engine:
llama.cpp (which rounds activations to 8 bits beside quantised weights), MLX-LM in float32, and transformers in float32
with the numbers that bitsandbytes and transformers dequantise. Steps are of 256 tokens, LoRA of rank 8 on all linear
layers, AdamW, activations in bf16; forms take turns, and each round gives a ratio to the first. Peaks are what the
system counts.
"""

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from parts.kept_forms import Form, forms
from parts.memory.optimizers import sampled
from parts.memory.report import megabytes
from parts.pages import write_between_marks
from parts.runs import command, last_step
from parts.spread import Spread

import mebp
from mebp.inspect import inspect
from mebp.tokenizer import Tokenizer

LENGTH, ROWS, STEPS = 256, 8, 4
HEAD = [
    "| base | on disk, MB | `weights.bin` has, MB | loss | its engine's | planned peak, MB (measured) | a step "
    "| beside the first | shown by |",
    "| --- | ---: | --- |" + " ---: |" * 5 + " --- |",
]


def held(bundle: Path) -> str:
    """Bytes of weights.bin by storage, the most first."""
    sizes: dict[str, int] = {}
    for weight in inspect(bundle)["weights"]:
        sizes[weight["storage"]] = sizes.get(weight["storage"], 0) + weight["bytes"]
    most = sorted(sizes, key=sizes.get, reverse=True)
    return ", ".join(f"{storage} {megabytes(sizes[storage])}" for storage in most if sizes[storage] > 1e6)


def loss(logits: np.ndarray, ids: np.ndarray) -> float:
    logits = logits[:-1].astype(np.float64)
    highest = logits.max(axis=1)
    normaliser = np.log(np.exp(logits - highest[:, None]).sum(axis=1)) + highest
    return float((normaliser - logits[np.arange(len(ids) - 1), ids[1:]]).mean())


def losses(bundle: Path, form: Form, rows: np.ndarray) -> tuple[float, float]:
    session = mebp.Session(bundle, forward_only=True)
    ours = [loss(session.logits(row[None])[0], row) for row in rows]
    return statistics.mean(ours), statistics.mean(loss(form.logits(row), row) for row in rows)


def seconds(bundle: Path, tokens: Path) -> float:
    """Of the fastest of some steps."""
    call = command(bundle, tokens, steps=STEPS, optimizer="adamw")
    said = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    return last_step(said)["seconds"]


def write_rows(bundle: Path, text: Path, tokens: Path) -> np.ndarray:
    start = text.read_text(encoding="utf-8")[: 16 * ROWS * LENGTH]
    rows = np.array(Tokenizer(bundle).encode(start)[: ROWS * LENGTH], np.int32).reshape(-1, LENGTH)
    np.save(tokens, rows)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokens, exact = folder / "tokens.npy", folder / "f32.mebp"
        rows, bundles, cells = None, {}, {}
        for form in forms(folder):
            exported = folder / "exported" / form.name / "model.onnx"
            bundle = bundles[form] = folder / "bundles" / f"{form.name}.mebp"
            bundle.parent.mkdir(exist_ok=True)
            mebp.export(form.path, exported, seq_len=LENGTH)
            mebp.compile(exported, exact, precision="f32", optimizer="adamw")
            mebp.compile(exported, bundle, optimizer="adamw")
            if rows is None:
                rows = write_rows(bundle, arguments.text, tokens)
            ours, theirs = losses(exact, form, rows)
            peak = sampled(command(bundle, tokens, optimizer="adamw"))
            cells[form] = [
                form.name,
                megabytes(form.bytes),
                held(bundle),
                f"{ours:.4f}",
                f"{theirs:.4f} ({form.engine})",
                f"{megabytes(peak['planned'])} ({megabytes(peak['sampled'])})",
            ]
            print(*cells[form], sep=" | ", flush=True)
        times = [{form: seconds(bundle, tokens) for form, bundle in bundles.items()} for _ in range(arguments.rounds)]
    lines = list(HEAD)
    first = next(iter(bundles))
    for form, known in cells.items():
        beside = Spread.of(each[form] / each[first] for each in times).describe()
        step = f"{statistics.median(each[form] for each in times):.2f} s"
        lines.append(f"| {' | '.join([*known, step, beside, form.test])} |")
    print("\n".join(lines))
    if arguments.markdown:
        write_between_marks(arguments.markdown, "bench/kept_forms.py", lines)


if __name__ == "__main__":
    main()
