# SPDX-License-Identifier: Apache-2.0
"""mebp.compile: runs mebpc, the compiler."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from pathlib import Path

from mebp.compile_options import as_arguments, listed_options
from mebp.errors import Error
from mebp.files import read_json, scratch_folder, user_path
from mebp.numbers import check_argument, check_fields, checked
from mebp.remote_adapters.middle import RemoteAdapter
from mebp.tools import find_tool, run_tool


@dataclass(frozen=True)
class LoRA:
    """What is trained: W + alpha / rank * B A, with A [rank, in] and B [out, rank], on the layers that `targets` names.

    targets: "all-linear" (as in PEFT: every one but lm_head), or module names such as ["q_proj", "lm_head"].
    rslora: W + alpha / sqrt(rank) * B A instead, as with PEFT's use_rslora.
    dropout: the share of what A reads that each step zeroes, from 0 to below 1; the rest is divided by 1 - dropout.
    """

    rank: int = 8
    alpha: float = 16
    targets: str | Sequence[str] = "all-linear"
    rslora: bool = False
    dropout: float = 0

    def __post_init__(self) -> None:
        check_fields(self)


@checked
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
    adapter: RemoteAdapter | None = None,
    lora_layers: str | None = None,
    train: str | None = None,
    train_targets: str | Sequence[str] | None = None,
    optimizer: str | None = None,
    objective: str | None = None,
    accumulate: bool = False,
    clip: bool = False,
    momentum: float | None = None,
    device: str | None = None,
    packing: bool = False,
    value_adapter: bool = False,
    memory_budget: str | int | None = None,
    spill: str | None = None,
    resident_limit: str | int | None = None,
    rates: str | os.PathLike[str] | None = None,
    seed: int = 0,
    galore_rank: int | None = None,
    value_head: bool = False,
    entropy_bonus: bool = False,
    router_aux_loss_coef: float | None = None,
    random_weights: int | None = None,
    chunk_size: int | None = None,
    checkpoint_spacing: int | None = None,
    loss_rows: int | None = None,
    loss_columns: int | None = None,
) -> None:
    """Compiles the exported `model` (an ONNX file) into the bundle folder `output`; what is None is mebpc's to choose.

    seq_len, batch: the longest sequence and the largest batch, in tokens and rows; None for those of the export.
    generate_len: the most tokens that a prompt and its answer may have together; None for a bundle that generates text
        slowly, up to seq_len.
    weights: how frozen weights are stored: "int4", "int4-sym", "int8", "bf16", "f32", or "file" as the model's own file
        has them; None for "int4", or for "file" where that is quantised in a way that int4 does not hold.
    embedding_weights: the same for the embedding and the head.
    weights_for: the same for some layers by their names, in which * stands for anything, such as
        {"lm_head": "int8", "*.layers.0.*": "bf16"}.
    precision: of activations, "bf16" or "f32".
    lora: the adapters that are trained; None for LoRA(), unless train is "full".
    adapter: adapters of another kind, such as PrivateLoRA(), instead of lora.
    lora_layers: the layers that are trained alone, by lora or by train "full": the last ones, as in "last:8", or the
        numbers of the first and the last, as in "20-23"; None for all.
    train: "lora", or "full" for weights of the model themselves, which are then stored as "bf16" or "f32".
    train_targets: which, with "full": "all-linear", or patterns of names in which * stands for anything, such as
        ["*norm*", "*.layers.0.*"].
    optimizer: what the printed plan counts, "adamw", "sgd", "lion", "adamw8bit", "galore", "qgalore" or "mezo". A
        bundle that is compiled for "galore" or "qgalore" projects gradients of matrices, and trains with that alone.
    objective: likewise, "sft", "dpo", "grpo", "ppo" or "orpo": what a step sums, and the text that it writes, is in the
        plan.
    accumulate, clip: likewise, steps over several micro-batches, whose gradients are summed, and clipping, which keeps
        all gradients of a step.
    momentum: of "sgd", which then has a state that is planned; None for none.
    packing: let a step put several samples into one row, each with positions and attention of its own.
    value_adapter: likewise planned, for objective "ppo", an adapter of the value head's own.
    device: what runs it, "cpu", "mlx" or "mlx-cpu": memory is planned for that one.
    memory_budget: the peak that the plan must keep, in bytes or as text such as "64MiB"; "auto" for three quarters of
        the memory that is free.
    spill: what a run keeps in a file on a disk: "none", "checkpoints", or "all", what is trained and the optimizer's
        state, too. Within a budget only where nothing else fits or a step is more than 5% faster for it; None for
        "none" or, within a budget, "checkpoints".
    resident_limit: the most of the mapped weights that a run holds in memory at once, in bytes or as text.
    rates: the file of mebp calibrate that times are predicted by, or "none" to estimate them; None for this machine's
        own, where it is there. A schedule that is chosen within a budget may depend on it.
    seed: of the adapters' initial values.

    What mebpc hands on as it stands, by docs/write_options.py:
    galore_rank: with galore or qgalore, dimensions that a matrix's gradient is projected to (default: 64)
    value_head: train a linear layer that gives a value of each token, too, as PPO needs it
    entropy_bonus: let objectives depend on the entropy; the head's backward then takes a second sweep of the vocabulary
    router_aux_loss_coef: add so many times the loss of how unevenly a mixture's experts are used, as transformers does
        with output_router_logits (default: 0)
    random_weights: draw random weights with this seed, for a --shape-only export
    chunk_size: process sequences in chunks of this many tokens; 0 for whole sequences (default: 0)
    checkpoint_spacing: keep the input of every N-th layer and recompute the others (default: 1)
    loss_rows: tokens in a tile of the loss (default: 128)
    loss_columns: vocabulary entries in a tile of the loss (default: 2048)

    Raises mebp.Error with mebpc's line where it refuses; `output` is then as it was before.
    """
    listed = {name: value for name, value in locals().items() if name in listed_options()}
    if lora is not None and adapter is not None:
        raise Error("lora and adapter cannot be used together: a bundle trains adapters of one kind; give one")
    if lora is None and adapter is None and train != "full":
        lora = LoRA()
    options = {
        **listed,
        "seq_len": seq_len,
        "batch": batch,
        "generate_len": generate_len,
        "weights": weights,
        "embedding_weights": embedding_weights,
        "weights_for": ",".join(f"{name}={storage}" for name, storage in (weights_for or {}).items()) or None,
        "precision": precision,
        "lora_rank": lora and lora.rank,
        "lora_alpha": lora and lora.alpha,
        "rslora": lora and lora.rslora,
        "lora_dropout": (lora and lora.dropout) or None,
        "lora_targets": _names((lora or adapter).targets) if lora or adapter else None,
        **remote_options(adapter),
        "lora_layers": lora_layers,
        "train": train,
        "train_targets": _names(train_targets),
        "optimizer": optimizer,
        "objective": objective,
        "accumulate": accumulate,
        "clip": clip,
        "momentum": momentum,
        "device": device,
        "packing": packing,
        "value_adapter": value_adapter,
        "memory_budget": _size(memory_budget),
        "spill": spill,
        "resident_limit": _size(resident_limit),
        "rates": None if rates is None else user_path(rates),
        "seed": seed,
    }
    run_mebpc(user_path(model), user_path(output), options)


def run_mebpc(model: Path, output: Path, options: Mapping[str, object]) -> None:
    """mebpc by its own options, with _ for - in their names. Raises mebp.Error with its line where it refuses."""
    _run_mebpc(str(model), "-o", str(output), *as_arguments(options))


def plan_mebpc(model: Path, options: Mapping[str, object]) -> tuple[str, dict]:
    """The plan that mebpc prints, and what its --plan-json has. Raises mebp.Error likewise."""
    return _plan(model, "--plan-only", options)


def find_frontier(model: Path, options: Mapping[str, object]) -> list[dict]:
    """What mebpc --frontier finds: peak_bytes and seconds of each plan, among others. Raises mebp.Error likewise."""
    return _plan(model, "--frontier", options)[1]["frontier"]


def find_generation_peak(model: Path, options: Mapping[str, object]) -> int:
    """What a process needs, in bytes, that generates text by such a bundle, whose plan has no say in it."""
    return plan_mebpc(model, options)[1]["generation_peak_bytes"]


def _plan(model: Path, what: str, options: Mapping[str, object]) -> tuple[str, dict]:
    with scratch_folder(Path(tempfile.gettempdir()), "mebp-plan-") as folder:
        file = folder / "plan.json"
        text = _run_mebpc(str(model), what, "--plan-json", str(file), *as_arguments(options))
        return text.rstrip(), read_json(file, "report it")


def check_options(options: Mapping[str, object]) -> None:
    """Raises mebp.Error for options that mebpc would refuse whatever the model is."""
    _run_mebpc("--check-options", *as_arguments(options))


def _run_mebpc(*arguments: str) -> str:
    try:
        return run_tool([find_tool("mebpc"), *arguments])
    except Error as error:
        raise Error(str(error).removeprefix("mebpc: ")) from None


def remote_options(adapter: RemoteAdapter | None) -> dict[str, object]:
    """Those of mebpc that such adapters are, but for what they adapt."""
    if adapter is None:
        return {}
    given = {field.name: getattr(adapter, field.name) for field in fields(adapter)}
    layers = given.pop("layers")
    del given["targets"]  # which are lora_targets
    return {"adapter": adapter.kind, **given, "split_layers": _layers(layers)}


def _layers(layers: Sequence[int] | None) -> str | None:
    if layers is None:
        return None
    check_argument("layers", layers, Sequence[int])
    if not len(layers) or list(layers) != list(range(layers[0], layers[0] + len(layers))):
        raise Error(f"layers is {layers!r}; give numbers of layers, one after the other, such as range(8)")
    return f"{layers[0]}-{layers[-1]}"


def _names(names: str | Sequence[str] | None) -> str | None:
    return names if names is None or isinstance(names, str) else ",".join(names)


def _size(size: str | int | None) -> str | None:
    return f"{size}B" if isinstance(size, Integral) else size
