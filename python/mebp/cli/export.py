# SPDX-License-Identifier: Apache-2.0
"""mebp export MODEL -o DIR/model.onnx"""

import argparse
import shlex
from pathlib import Path

from mebp.tasks import CAUSAL, TASKS
from mebp.waiting import stages
from mebp.words import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a Hugging Face folder, a hub id (with @REVISION, too), a GGUF file, ollama:NAME, "
        "hub:OWNER/NAME:Q4_K_M, or packaged:smollm2",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR/model.onnx")
    parser.add_argument("--seq-len", type=int, default=256, metavar="N", help="tokens in a sequence (default: 256)")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="sequences in a batch (default: 1)")
    parser.add_argument(
        "--task",
        choices=list(TASKS),
        default=CAUSAL,
        help="predict the next token, or of an encoder with a head for it, tell texts apart, or their tokens, or "
        "predict masked ones (default: causal)",
    )
    parser.add_argument(
        "--classes",
        metavar="NAMES",
        help="with --task classify or token-classify, names of the classes (default: those of config.json)",
    )
    parser.add_argument(
        "--shape-only", action="store_true", help="export without weights; the model needs only its config.json"
    )


def _storage(model: str) -> str:
    """The options that are nearest to the codes of MLX's folder, or keep FP8 and NF4. Those of a GGUF file are kept
    without any."""
    from mebp.exporter import mlx, rounded
    from mebp.exporter.checkpoint import read_checkpoint
    from mebp.exporter.finding import find_here
    from mebp.exporter.source import mlx_form
    from mebp.files import read_json, user_path

    found = find_here(model)
    place = found.place if found else user_path(model)
    fields = read_json(place / "config.json", "download it again") if (place / "config.json").is_file() else {}
    if storage := rounded.storage_of(fields):
        return f" --weights {storage}"
    of_mlx = mlx_form(fields)
    options = mlx.storage_options(read_checkpoint(place), of_mlx) if of_mlx else ""
    return f" {options}" if options else ""


def run(arguments: argparse.Namespace) -> int:
    import mebp

    with stages("loading torch and transformers") as stage:
        written = mebp.export(
            arguments.model,
            arguments.output,
            seq_len=arguments.seq_len,
            batch=arguments.batch,
            shape_only=arguments.shape_only,
            progress=stage,
            task=arguments.task,
            classes=arguments.classes and arguments.classes.split(","),
        )
    bundle = f"{written.parent.name or 'model'}.mebp"
    # Who has no weights asks what a step would take.
    rest = "--frontier" if arguments.shape_only else f"-o {shlex.quote(bundle)}{_storage(arguments.model)}"
    say(f"wrote {written}; next: {shlex.join(['mebpc', str(written)])} {rest}")
    return 0
