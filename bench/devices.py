# SPDX-License-Identifier: Apache-2.0
"""One device beside the CPU: gradients, and twenty steps of training.

    .venv/bin/python bench/devices.py [gradients] [training] [--device mlx-cpu] [--seq-len 64]
        [--folder DIR] [--markdown docs/mlx.md] [--image docs/images/devices.png]

gradients: SmolLM2-135M, int4 weights, LoRA r=8 on all linear layers, f32 and bf16: each gradient of one random batch on
the device, relative to the CPU's, and in bf16 also relative to float64 in torch, beside torch's own bf16.
training: twenty steps of AdamW on examples/*.jsonl in f32 on both, as one picture.
Without names it does both. Here the device is MLX's build for the CPU, of some 4 GFLOP/s, hence the short rows.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from parts.device_picture import draw
from parts.folders import there
from parts.pages import write_between_marks

import mebp

PARTS = ("gradients", "training")
STEPS = 20
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "brindle_rock.jsonl"
MARK = "bench/devices.py: {}"
GRADIENTS_HEADER = [
    "| device | activations | compared with | worst | median | the loss |",
    "| --- | --- | --- | ---: | ---: | ---: |",
]
TRAINING_HEADER = ["| step | loss on cpu | loss on {} | apart |", "| ---: | ---: | ---: | ---: |"]


class Models:
    """SmolLM2's bundles, each made when it is first asked for."""

    def __init__(self, folder: Path, length: int) -> None:
        self.folder, self.length = folder, length

    def bundle(self, precision: str) -> Path:
        exported, bundle = self.folder / "onnx" / "model.onnx", self.folder / f"{precision}.mebp"
        if not exported.exists():
            mebp.export("packaged:smollm2", exported, seq_len=self.length)
        if not bundle.exists():
            mebp.compile(exported, bundle, seq_len=self.length, weights="int4", precision=precision)
        return bundle


def gradients(models: Models, device: str) -> list[str]:
    rows = []
    for precision in ("f32", "bf16"):
        bundle = models.bundle(precision)
        found = mebp.parity(bundle, ["cpu", device])
        rows.append(_row(device, precision, "the CPU", found.errors[device]))
        if precision == "bf16":
            exact = mebp.verify(bundle, device=device)
            rows.append(_row(device, precision, "float64", exact.bundle))
            rows.append(_row("torch", precision, "float64", exact.torch))
    return [*GRADIENTS_HEADER, *rows]


def _row(device: str, precision: str, truth: str, errors: object) -> str:
    return f"| {device} | {precision} | {truth} | {errors.worst:.1e} | {errors.median:.1e} | {errors.loss:.1e} |"


def training(models: Models, device: str, image: Path | None) -> list[str]:
    losses = {}
    for name in ("cpu", device):
        run = mebp.train(models.bundle("f32"), EXAMPLE, steps=STEPS, device=name, progress=False)
        losses[name] = [record.loss for record in run.records]
    if image:
        draw(losses, image)
    rows = [
        f"| {step} | {cpu:.6f} | {other:.6f} | {abs(other - cpu) / cpu:.1e} |"
        for step, (cpu, other) in enumerate(zip(*losses.values(), strict=True), 1)
    ]
    return [TRAINING_HEADER[0].format(device), TRAINING_HEADER[1], *rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="gradients, training (default: both)")
    parser.add_argument("--device", default="mlx-cpu", help="beside the CPU (default: mlx-cpu)")
    parser.add_argument("--seq-len", type=int, default=64, metavar="N", help="tokens in a row (default: 64)")
    parser.add_argument("--folder", type=there, metavar="DIR", help="keep bundles here")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables into this page, too")
    parser.add_argument("--image", type=Path, metavar="FILE", help="draw the training here")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; choose {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as temporary:
        models = Models(arguments.folder or Path(temporary), arguments.seq_len)
        tables = {
            "gradients": lambda: gradients(models, arguments.device),
            "training": lambda: training(models, arguments.device, arguments.image),
        }
        for part in arguments.parts or PARTS:
            table = tables[part]()
            print(f"{part}\n" + "\n".join(table) + "\n", flush=True)
            if arguments.markdown:
                write_between_marks(arguments.markdown, MARK.format(part), table)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (mebp.Error, ValueError) as error:
        print(f"devices.py: {error}", file=sys.stderr)
        sys.exit(2)
