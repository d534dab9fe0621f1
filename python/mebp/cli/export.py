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
        "--train-tokens",
        metavar="LIST",
        help="add these tokens, with commas between them, to the vocabulary, and train their rows beside LoRA; all: "
        "every row that the model has",
    )
    parser.add_argument(
        "--shape-only", action="store_true", help="export without weights; the model needs only its config.json"
    )


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
            train_tokens=arguments.train_tokens,
        )
    bundle = f"{written.parent.name or 'model'}.mebp"
    # Who has no weights asks what a step would take.
    rest = "--frontier" if arguments.shape_only else f"-o {shlex.quote(bundle)}"
    say(f"wrote {written}; next: {shlex.join(['mebpc', str(written)])} {rest}")
    return 0
