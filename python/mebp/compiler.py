# SPDX-License-Identifier: Apache-2.0
"""mebp.compile: runs mebpc, the compiler."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mebp.errors import Error
from mebp.files import user_path
from mebp.tools import find_tool, run_tool


@dataclass(frozen=True)
class LoRA:
    """What is trained: W + alpha / rank * B A, with A [rank, in] and B [out, rank], on the layers that `targets` names.

    targets: "all-linear" (as in PEFT: every one but lm_head), or module names such as ["q_proj", "lm_head"].
    """

    rank: int = 8
    alpha: float = 16
    targets: str | Sequence[str] = "all-linear"


def compile(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    seq_len: int | None = None,
    batch: int | None = None,
    generate_len: int | None = None,
    weights: str | None = None,
    embedding_weights: str | None = None,
    weights_for: Mapping[str, str] | None = None,
    precision: str | None = None,
    lora: LoRA | None = None,
    train: str | None = None,
    train_targets: str | Sequence[str] | None = None,
    optimizer: str | None = None,
    memory_budget: str | int | None = None,
    chunk_size: int | None = None,
    checkpoint_spacing: int | None = None,
    spill: str | None = None,
    resident_limit: str | int | None = None,
    rates: str | os.PathLike[str] | None = None,
    seed: int = 0,
    random_weights: int | None = None,
) -> None:
    """Compiles the exported `model` (an ONNX file) into the bundle folder `output`; what is None is mebpc's to choose.

    seq_len, batch: the longest sequence and the largest batch, in tokens and rows; None for those of the export.
    generate_len: the most tokens that a prompt and its answer may have together; None for a bundle that generates text
        slowly, up to seq_len.
    weights: how frozen weights are stored: "int4", "int4-sym", "int8", "bf16" or "f32".
    embedding_weights: the same for the embedding and the head.
    weights_for: the same for some layers by their names, in which * stands for anything, such as
        {"lm_head": "int8", "*.layers.0.*": "bf16"}.
    precision: of activations, "bf16" or "f32".
    lora: the adapters that are trained; None for LoRA(), unless train is "full".
    train: "lora", or "full" for weights of the model themselves, which are then stored as "bf16" or "f32".
    train_targets: which, with "full": "all-linear", or patterns of names in which * stands for anything, such as
        ["*norm*", "*.layers.0.*"].
    optimizer: what the printed plan counts, "adamw", "sgd" or "mezo".
    memory_budget: the peak that the plan must keep, in bytes or as text such as "64MiB".
    chunk_size: positions of a chunk along the sequence; 0 for whole sequences.
    checkpoint_spacing: every how many layers an input is kept; the others are computed again.
    spill: what a run keeps in a file on a disk: "none", "checkpoints", or "all", the optimizer's state, too. Within a
        budget no more than it needs; None for "none" or, within a budget, "checkpoints".
    resident_limit: the most of the mapped weights that a run holds in memory at once, in bytes or as text.
    rates: the file of mebp calibrate that times are predicted by, or "none" to estimate them; None for this machine's
        own, where it is there. A schedule that is chosen within a budget may depend on it.
    seed: of the adapters' initial values.
    random_weights: the seed to draw weights by, for a model that was exported from its shape alone.

    Raises mebp.Error with mebpc's line where it refuses; `output` is then as it was before.
    """
    if lora is None and train != "full":
        lora = LoRA()
    options = {
        "--seq-len": seq_len,
        "--batch": batch,
        "--generate-len": generate_len,
        "--weights": weights,
        "--embedding-weights": embedding_weights,
        "--weights-for": ",".join(f"{name}={storage}" for name, storage in (weights_for or {}).items()) or None,
        "--precision": precision,
        "--lora-rank": lora and lora.rank,
        "--lora-alpha": lora and lora.alpha,
        "--lora-targets": lora and _names(lora.targets),
        "--train": train,
        "--train-targets": _names(train_targets),
        "--optimizer": optimizer,
        "--memory-budget": _size(memory_budget),
        "--chunk-size": chunk_size,
        "--checkpoint-spacing": checkpoint_spacing,
        "--spill": spill,
        "--resident-limit": _size(resident_limit),
        "--rates": None if rates is None else user_path(rates),
        "--seed": seed,
        "--random-weights": random_weights,
    }
    command = [find_tool("mebpc"), str(user_path(model)), "-o", str(user_path(output))]
    command += [part for name, value in options.items() if value is not None for part in (name, str(value))]
    try:
        run_tool(command)
    except Error as error:
        raise Error(str(error).removeprefix("mebpc: ")) from None


def _names(names: str | Sequence[str] | None) -> str | None:
    return names if names is None or isinstance(names, str) else ",".join(names)


def _size(size: str | int | None) -> str | None:
    return f"{size}B" if isinstance(size, int) else size
