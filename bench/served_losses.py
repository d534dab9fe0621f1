# SPDX-License-Identifier: Apache-2.0
"""What the demo's adapter is worth where it is served: beside the weights that it was trained with, beside those of the
packaged SmolLM2, and merged.

    .venv/bin/python bench/served_losses.py [--markdown docs/adapters.md]

Each storage has an adapter of its own, trained as the demo trains it; the losses are those of the demo's 30 questions,
with activations in f32.
The package has its model in 4 bits, as a Q4_1 file: int4 stores just these numbers, and int4-sym others. With
--markdown the table replaces the one between the marks in that page.
"""

import argparse
import tempfile
from pathlib import Path

from parts.pages import write_between_marks

import mebp
from mebp.merging import write_merged
from mebp.merging.served import ONTO, PUBLISHED, STORED, opened
from mebp.recompiling import measure_gguf

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
QUESTIONS = EXAMPLES / "brindle_rock_questions.jsonl"
DTYPE = "q8_0"


def losses_of(folder: Path, exported: Path, storage: str) -> list[str]:
    bundle, measured, adapter = (folder / f"{storage}{end}" for end in (".mebp", "-f32.mebp", "-adapter"))
    for path, precision in ((bundle, "bf16"), (measured, "f32")):  # in f32 nothing but the weights differs
        mebp.compile(exported, path, seq_len=128, batch=4, weights=storage, precision=precision)
    mebp.train(bundle, EXAMPLES / "brindle_rock.jsonl", epochs=4, lr=2e-3, schedule="linear", warmup=10,
               adapter_out=adapter, progress=False)  # fmt: skip
    with opened(measured, adapter, QUESTIONS, stage=print) as served:
        found, files = served.losses, []
        for onto in (STORED, PUBLISHED):
            file = folder / f"{storage}-{onto}.gguf"
            write_merged(served, file, DTYPE, None, onto)
            files.append(measure_gguf(served, file, print).written)
            file.unlink()
    pairs = (found.stored.base, found.published.base, found.stored.adapted, found.published.adapted)
    return [storage, *(f"{loss:.4f}" for loss in (*pairs, *files)), found.better]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    columns = ["stored as", "stored, no adapter", "published, no adapter", "stored + adapter", "published + adapter",
               *(f"merged onto {onto}, {DTYPE}" for onto in ONTO[:2]), "`--onto auto`"]  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mebp.export("packaged:smollm2", folder / "model" / "model.onnx", seq_len=256)
        for storage in ("int4", "int4-sym"):
            lines.append(f"| {' | '.join(losses_of(folder, folder / 'model' / 'model.onnx', storage))} |")
            print(lines[-1], flush=True)
    if arguments.markdown:
        write_between_marks(arguments.markdown, "bench/served_losses.py", lines)


if __name__ == "__main__":
    main()
