# SPDX-License-Identifier: Apache-2.0
"""What a step should take on some phones, by the compiler's cost model and published rates. Nothing here is measured.

    .venv/bin/python bench/phones.py [--phones bench/parts/phones.json] [--seq-len 256] [--models SmolLM2-135M ...]
        [--markdown docs/phones.md]

int4 weights, bf16 activations, LoRA r=8 on all linear layers, batch 1, AdamW. A range is for kernels that reach the
file's shares of what the cores can do. `warm` has the share of that which a hot phone keeps. bench/measure_phone.py
measures a real one.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parts.pages import read_between_marks, write_between_marks
from parts.phone_rates import Kernels, Phone, make_rates, read_phones
from parts.shapes import HYBRIDS, SHAPES

import mebp
from mebp.calibration import calibrate
from mebp.tools import find_tool, run_tool

PHONES = Path(__file__).parent / "parts" / "phones.json"
SMOLLM2 = "SmolLM2-135M"
MODELS = (SMOLLM2, "Qwen2.5-0.5B", "Qwen3.5-0.8B")
MARK = "bench/phones.py"
HEADER = [
    "| phone | chip | model | tokens | model of a step, s | the same, warm, s | planned peak, MB |",
    "| --- | --- | --- | ---: | ---: | ---: | ---: |",
]


@dataclass(frozen=True)
class Model:
    name: str
    exported: Path
    length: int


def export_model(name: str, folder: Path, length: int) -> Model:
    """Its graph; no weights are needed to plan a step."""
    exported = folder / name / "onnx" / "model.onnx"
    source: Path | str = "packaged:smollm2"
    if name != SMOLLM2:
        source = folder / name / "config"
        (SHAPES | HYBRIDS)[name].write_config(source)
    mebp.export(source, exported, seq_len=length, shape_only=True)
    return Model(name, exported, length)


def plan(model: Model, rates: dict, folder: Path) -> dict:
    file, output = folder / "rates.json", folder / "plan.json"
    file.write_text(json.dumps(rates), encoding="utf-8")
    options = ["--seq-len", str(model.length), "--precision", "bf16", "--weights", "int4", "--optimizer", "adamw"]
    options += ["--threads", "1", "--rates", str(file), "--plan-only", "--plan-json", str(output)]
    run_tool([find_tool("mebpc"), str(model.exported), *options])
    return json.loads(output.read_text(encoding="utf-8"))


def seconds_range(phone: Phone, model: Model, kernels: Kernels, warm: float, names: list[str], folder: Path) -> str:
    found = [
        plan(model, make_rates(phone, kernels, share * warm, names), folder)["predicted_seconds"]
        for share in kernels.share
    ]
    return f"{found[0]:.2g} to {found[-1]:.2g}"


def rows(kernels: Kernels, phones: list[Phone], models: list[Model], folder: Path) -> Iterator[str]:
    names = list(calibrate(folder / "names.json", quick=True)["nanoseconds"])
    for model in models:
        for phone in phones:
            cool, warm = (seconds_range(phone, model, kernels, heat, names, folder) for heat in (1.0, phone.warm))
            peak = plan(model, make_rates(phone, kernels, kernels.share[0], names), folder)["peak_bytes"]
            cells = [phone.name, phone.chip, model.name, str(model.length), cool, warm, f"{peak / 1e6:.0f}"]
            yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phones", type=Path, default=PHONES)
    parser.add_argument("--seq-len", type=int, default=256)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    try:
        if arguments.markdown:
            read_between_marks(arguments.markdown, MARK)
        kernels, phones = read_phones(arguments.phones)
    except (OSError, ValueError) as error:
        print(f"phones.py: {error}", file=sys.stderr)
        sys.exit(2)
    with tempfile.TemporaryDirectory() as made:
        models = [export_model(name, Path(made), arguments.seq_len) for name in arguments.models]
        table = [*HEADER, *rows(kernels, phones, models, Path(made))]
    if arguments.markdown:
        write_between_marks(arguments.markdown, MARK, table)
    print("\n".join(table))


if __name__ == "__main__":
    main()
