# SPDX-License-Identifier: Apache-2.0
"""A bundle's base model and an adapter, merged into one model as transformers has it."""

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.element_types import ELEMENT_TYPES
from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.files import check_space, new_folder, read_json, user_path
from mebp.inspect import inspect
from mebp.session import Session
from mebp.tensor_file import relative_norm, write_tensors
from mebp.tensor_names import lora_factors, stored_name


@dataclass(frozen=True)
class MergeResult:
    """What was written. Changes and roundings are L2 norms by that of the tensor itself."""

    tensors: int
    bytes: int
    changes: dict[str, float]  # of each tensor that the adapter changed
    roundings: dict[str, float]  # of each tensor; 0 in f32


@dataclass(frozen=True)
class _Tensor:
    """One to write: the bundle's `index`-th weight, under `name`."""

    name: str
    index: int
    shape: tuple[int, ...]
    transposed: bool


def merge(
    bundle: str | os.PathLike[str],
    adapter: str | os.PathLike[str],
    output: str | os.PathLike[str],
    dtype: str = "f32",
) -> MergeResult:
    """Writes W + alpha / rank * B A for every adapted weight, and all others, as the new transformers folder `output`.

    W is the bundle's weight, dequantised, for the adapter was trained on that: the folder computes what the session
    does. The sum is made in float32 and rounded to `dtype`: "f32", "bf16" or "f16". One tensor is in memory at a time.
    A head that is tied to the embedding and has an adapter becomes a weight of its own.

    Raises mebp.Error, with nothing written, where the adapter does not belong to the bundle, the bundle has no
    config.json, a number cannot be held, or `output` cannot be written or is not empty.
    """
    bundle, adapter, output = (user_path(path) for path in (bundle, adapter, output))
    if dtype not in ELEMENT_TYPES:
        raise Error(f"dtype '{dtype}' is not one of {', '.join(ELEMENT_TYPES)}")
    session = Session(bundle, threads=1, forward_only=True)
    session.load_adapter(adapter)
    description = inspect(bundle)
    lora = description["model"]["lora"]
    scale = np.float32(lora["alpha"] / lora["rank"])
    trainables = session.trainables()
    opened = load_runtime().Bundle(os.fspath(bundle))
    tensors = _tensors(description["weights"], dict(opened.weights()), trainables)
    config = _config(bundle / "tokenizer" / "config.json", dtype)
    if len({tensor.index for tensor in tensors}) < len(tensors):
        config["tie_word_embeddings"] = False
    changes: dict[str, float] = {}

    def merged() -> Iterator[np.ndarray]:
        for tensor in tensors:
            weight = opened.read_weight(tensor.index)
            name_a, name_b = lora_factors(tensor.name)
            if name_a in trainables:
                change = scale * (trainables[name_b] @ trainables[name_a])
                if tensor.transposed:
                    change = change.T
                changes[tensor.name] = relative_norm(change, weight)
                weight += change
            yield weight

    # What overflows is refused by the tensor's name.
    with (
        np.errstate(over="ignore", invalid="ignore"),
        new_folder(output, "nothing was, choose another place") as folder,
    ):
        _copy_files(bundle / "tokenizer", folder)
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        shapes = {tensor.name: tensor.shape for tensor in tensors}
        elements = sum(math.prod(shape) for shape in shapes.values())
        check_space(output.absolute().parent, elements * ELEMENT_TYPES[dtype].bytes, "the merged model")
        roundings = write_tensors(folder / "model.safetensors", shapes, merged(), dtype)
        size = (folder / "model.safetensors").stat().st_size
    return MergeResult(len(tensors), size, changes, roundings)


def _copy_files(source: Path, target: Path) -> None:
    """Copies the regular files in `source`: a link may lead to any file of whoever merges."""
    for file in sorted(source.iterdir()):
        if file.is_file() and not file.is_symlink():
            shutil.copy(file, target / file.name)


def _tensors(
    weights: list[dict], shapes: dict[str, tuple[int, ...]], trainables: Mapping[str, np.ndarray]
) -> list[_Tensor]:
    """One for each weight; a tied one whose head alone is adapted becomes two, which are not tied any more."""

    def names(weight: dict) -> list[str]:
        every = [weight["name"], *weight["aliases"]]
        stored = stored_name(every)
        return [stored, *(name for name in every if name != stored and lora_factors(name)[0] in trainables)]

    return [
        _Tensor(name, index, tuple(shapes[weight["name"]]), weight["transposed"])
        for index, weight in enumerate(weights)
        for name in names(weight)
    ]


def _config(path: Path, dtype: str) -> dict:
    config = read_json(path, "export and compile the model again")
    config.pop("torch_dtype", None)  # as it was once called
    config["dtype"] = ELEMENT_TYPES[dtype].torch
    return config
