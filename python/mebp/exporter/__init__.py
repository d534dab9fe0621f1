# SPDX-License-Identifier: Apache-2.0
"""transformers -> ONNX, without loading or copying the weights: the graph refers into the model's own safetensors.

source      what the user names -> a folder with config.json and weights
checkpoint  where each tensor lies in the safetensors files
skeleton    the model without weights
graph       the skeleton's ONNX graph
weights     the graph's initializers -> places in the files beside it
tokenizer   the files that travel along
output      everything appears at once, or nothing does
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mebp.errors import Error
from mebp.extras import need_packages
from mebp.files import user_path
from mebp.numbers import checked, whole_number
from mebp.tokenizer import check_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["export"]


@checked
def export(
    model: str | Path | PreTrainedModel,
    path: str | Path,
    seq_len: int = 256,
    batch: int = 1,
    shape_only: bool = False,
    progress: Callable[[str], None] | None = None,
    task: str = "causal",
    classes: Sequence[str] | None = None,
    train_tokens: str | Sequence[str] | None = None,
) -> Path:
    """Writes `model` as ONNX to `path`, its weights hard-linked beside it and its tokenizer in `tokenizer/`.

    model: a Hugging Face folder, a GGUF file, a hub id, "OWNER/NAME@REVISION", "hub:OWNER/NAME:Q4_K_M", "ollama:NAME",
        "packaged:smollm2", or a PreTrainedModel (whose tensors are saved beside). What is written says the commit of a
        hub id.
    seq_len, batch: the shape of input_ids, int64 [batch, seq_len]; logits are [batch, seq_len, vocabulary].
    shape_only: needs no weights; the graph refers to none, and mebpc takes it with --random-weights.
    progress: called with a line of text when a stage begins: tracing takes most of the time.
    task: "causal", or what an encoder with a head for it does: "classify" tells samples apart and "token-classify"
        tokens, with logits [batch, seq_len, classes], a sample's being those of its first token; "fill-mask" predicts
        masked tokens.
    classes: of a classifier, their names in the order of its logits; None for those of config.json.

    train_tokens: new tokens, which are added to the tokenizer and have rows of the embedding and the head that a bundle
        trains beside LoRA; "all" trains all rows that there are.

    Returns the path of the ONNX file. Raises Error, with nothing left half-written, where the model cannot be
    exported or the folder not written.
    """
    seq_len, batch = whole_number("--seq-len", seq_len, at_least=1), whole_number("--batch", batch, at_least=1)
    path, tokens = user_path(path), () if train_tokens is None else check_tokens(train_tokens)
    if path.suffix != ".onnx":
        raise Error(f"{path}: the output's name must end in .onnx")
    need_packages("export", "export", "torch", "transformers", "onnx_ir", "onnxscript")

    from mebp.exporter.output import staged
    from mebp.exporter.quiet import quiet

    with staged(path) as stage, quiet():
        from mebp.exporter.write import write

        write(model, stage, seq_len, batch, shape_only, progress or (lambda _: None), task, classes, tokens)
    return path
