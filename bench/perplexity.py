# SPDX-License-Identifier: Apache-2.0
"""What each weight format and precision does to SmolLM2-135M: perplexity, and the size of its weights.

    .venv/bin/python bench/perplexity.py TEXT [--tokens 8192] [--length 512] [--markdown docs/weights.md]

TEXT is plain text, such as WikiText-2's test part. Its first tokens are cut into rows; each row is predicted by itself.
With --markdown the table replaces the one between the marks in that page.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from parts.pages import write_between_marks
from transformers import AutoModelForCausalLM

import mebp
from mebp.exporter.packaged import unpack
from mebp.tokenizer import Tokenizer

# (--weights, --embedding-weights, --precision); None is what mebpc chooses.
CHOICES = (
    ("f32", None, "f32"),
    ("bf16", None, "f32"),
    ("int8", None, "f32"),
    ("int4", None, "f32"),
    ("int4", "int4", "f32"),
    ("int4-sym", None, "f32"),
    ("int4-sym", "int4-sym", "f32"),
    ("f32", None, "bf16"),
    ("bf16", None, "bf16"),
    ("int8", None, "bf16"),
    ("int4", None, "bf16"),
    ("int4", "int4", "bf16"),
    ("int4-sym", None, "bf16"),
)


def perplexity(losses: list[float]) -> float:
    return float(np.exp(np.mean(losses)))


def of_source(rows: np.ndarray, dtype: torch.dtype) -> float:
    model = AutoModelForCausalLM.from_pretrained(
        unpack("packaged:smollm2"), dtype=dtype, trust_remote_code=False, use_safetensors=True
    )
    losses = []
    with torch.no_grad():
        for row in torch.from_numpy(rows):
            logits = model(input_ids=row[None]).logits[0, :-1].double()
            losses.append(torch.nn.functional.cross_entropy(logits, row[1:]).item())
    return perplexity(losses)


def of_bundle(bundle: Path, rows: np.ndarray) -> float:
    session = mebp.Session(bundle, return_gradients=False)
    return perplexity([session.loss(row[None], row[None]) for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()

    lines = ["| weights | embedding | precision | weights on disk | perplexity |", "| --- | --- | --- | --- | --- |"]
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder) / "model" / "model.onnx"
        mebp.export("packaged:smollm2", exported, seq_len=arguments.length)
        rows = None
        for weights, embedding, precision in CHOICES:
            bundle = Path(folder) / "model.mebp"
            mebp.compile(exported, bundle, weights=weights, embedding_weights=embedding, precision=precision)
            if rows is None:
                text = arguments.text.read_text(encoding="utf-8")
                tokens = Tokenizer(bundle).encode(text[: arguments.tokens * 8])[: arguments.tokens]
                rows = np.array(tokens).reshape(-1, arguments.length)
                for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
                    lines.append(f"| torch, {name} | | {name} | | {of_source(rows, dtype):.2f} |")
                    print(lines[-1], flush=True)
            options = mebp.Session(bundle, return_gradients=False).manifest["options"]
            size = (bundle / "weights.bin").stat().st_size / 1e6
            lines.append(
                f"| {weights} | {options['embedding_weights']} | {precision} | {size:.0f} MB "
                f"| {of_bundle(bundle, rows):.2f} |"
            )
            print(lines[-1], flush=True)
    if arguments.markdown:
        write_between_marks(arguments.markdown, "bench/perplexity.py", lines)


if __name__ == "__main__":
    main()
