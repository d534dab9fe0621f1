# SPDX-License-Identifier: Apache-2.0
"""A bundle's base model and an adapter, merged into one model for transformers or llama.cpp."""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np

from mebp.element_types import ELEMENT_TYPES
from mebp.errors import Error
from mebp.expert_adapters import factors_of_parameters, product
from mebp.exporter.text_parts import TextPart, text_part_named
from mebp.extension import load_runtime
from mebp.files import check_space, new_folder, replaced_file, user_path
from mebp.gguf import GGUF_SUFFIX, GGUF_TYPES
from mebp.inspect import inspect
from mebp.merging.beside_text import TEXT, BesideText, find_whole_model
from mebp.merging.served import AUTO, ONTO, STORED, Served, opened
from mebp.model_folder import copy_files, model_config
from mebp.numbers import checked
from mebp.remote_adapters import is_factor
from mebp.serving.modelfile import Modelfile, modelfile_beside
from mebp.tasks import CAUSAL
from mebp.tensor_file import relative_norm, write_tensors
from mebp.tensor_names import is_of_model, lora_factors, stored_name
from mebp.trained_model import model_shapes


@dataclass(frozen=True)
class MergeResult:
    """What was written. Changes and roundings are L2 norms by that of the tensor itself."""

    tensors: int
    bytes: int
    changes: dict[str, float]  # of each tensor that the adapter changed
    roundings: dict[str, float]  # of each tensor; 0 in f32
    onto: str = STORED  # or PUBLISHED: the weights that the adapter was added to
    modelfile: Modelfile | None = None  # beside a GGUF file of a model that has a tokenizer
    text_alone: bool = False  # a file that has not all of the model, which takes more than text


@dataclass(frozen=True)
class _Tensor:
    """One to write: the bundle's `index`-th weight, under `name`."""

    name: str
    index: int
    shape: tuple[int, ...]
    transposed: bool


@checked
def merge(
    bundle: str | os.PathLike[str],
    adapter: str | os.PathLike[str],
    output: str | os.PathLike[str],
    dtype: str = "f32",
    base: str | os.PathLike[str] | None = None,
    onto: str = STORED,
    data: str | os.PathLike[str] | None = None,
) -> MergeResult:
    """Writes W + alpha / rank * B A for every adapted weight, and all others, as the new transformers folder `output`,
    or as one file for llama.cpp where its name ends in .gguf, with a Modelfile for Ollama beside it.

    W is the bundle's weight, dequantised, for the adapter was trained on that: what is written computes what the
    session does. With `onto` "published" it is that of the model which the bundle was made of, as PEFT and vLLM have
    it; "auto" measures both on `data` (a file as for mebp train; None: samples that the trained model writes), and
    takes the one with the lower loss. A tensor that was trained as itself has its trained values, whatever it is merged
    onto. The sum is made in float32 and rounded to `dtype`: "f32", "bf16" or "f16", and of a GGUF file also one
    that is quantised, as "q4_k_m" (mebp.gguf.GGUF_TYPES has all). One tensor is in memory at a time. A head that is
    tied to the embedding and has an adapter becomes a weight of its own.

    Of a model that takes more than text, a bundle has the text. The folder is the whole model's: all other tensors are
    copied from `base`, its folder or hub id, byte for byte; None for what this machine has trained the adapter on, or
    what the bundle says, if that is here. It names the published model, too.

    Raises mebp.Error, with nothing written, where the adapter does not belong to the bundle, the bundle has no
    config.json, a number cannot be held, llama.cpp has no such model, or `output` cannot be written, or exists and is
    not an empty folder.
    """
    paths = [user_path(path) for path in (bundle, adapter, output)]
    if data is not None and onto != AUTO:
        raise Error("data is what onto='auto' measures on; leave it out")
    if base is not None and onto == STORED:
        check_lacking(paths[0], paths[2])
    named = None if base is None else os.fspath(base)
    with opened(paths[0], paths[1], None if data is None else user_path(data), named) as served:
        return write_merged(served, paths[2], dtype, named, onto)


def check_lacking(bundle: Path, output: Path) -> None:
    """Raises mebp.Error where the file or folder is of no other model than the bundle's."""
    if output.suffix == GGUF_SUFFIX or text_part_named(inspect(bundle)["model"]["text_part"]) is None:
        raise Error(f"--base names the model that has what {bundle} lacks, and nothing is lacking; leave it out")


def write_merged(
    served: Served,
    output: Path,
    dtype: str,
    base: str | None,
    onto: str,
    numbers: Mapping[str, float] = MappingProxyType({}),
) -> MergeResult:
    """As `merge`, of what is measured besides. numbers: what a GGUF file says of itself, by its keys."""
    bundle, adapter, is_gguf = served.bundle, served.adapter, output.suffix == GGUF_SUFFIX
    types = GGUF_TYPES if is_gguf else ELEMENT_TYPES
    if dtype not in types:
        raise Error(f"dtype '{dtype}' is not one of {', '.join(types)}")
    if onto not in ONTO:
        raise Error(f"onto '{onto}' is not one of {', '.join(ONTO)}")
    if is_gguf and output.exists():
        raise Error(f"{output}: exists already; name a new file")
    session, trainables = served.session, served.trainables
    description = inspect(bundle)
    lora = description["model"]["lora"]
    scale = np.float32(lora["alpha"] / lora["rank"])
    if is_gguf and session.task != CAUSAL:
        raise Error(f"{output}: llama.cpp has no such encoder; merge it to a folder")
    part = text_part_named(description["model"]["text_part"])
    if onto == AUTO:
        onto = served.losses.choice
    source = bundle if onto == STORED else served.published.bundle
    weights, opened_weights = inspect(source), load_runtime().Bundle(os.fspath(source))
    tensors = _tensors(weights["weights"], model_shapes(weights, opened_weights.weights()), trainables)
    of_parameters = factors_of_parameters(description)
    rows_of = {each["rows_of"]: each for each in weights["trainables"] if "rows_of" in each}  # new tokens'
    changes: dict[str, float] = {}

    def merged() -> Iterator[np.ndarray]:
        for tensor in tensors:
            weight = opened_weights.read_weight(tensor.index)
            name = weights["weights"][tensor.index]["name"]  # of a tied one, not every file's
            if name in trainables:  # itself, beside adapters
                trained = trainables[name].reshape(weight.shape)
                changes[tensor.name] = relative_norm(trained - weight, weight)
                weight = trained
            if rows := rows_of.get(name):
                own = weight[rows["first_row"] :][: rows["rows"]]
                changes[tensor.name] = relative_norm(trainables[rows["name"]] - own, weight)
                own[:] = trainables[rows["name"]]
            name_a, name_b = of_parameters.get(tensor.name) or lora_factors(tensor.name)
            if name_a in trainables:
                a, b = trainables[name_a], trainables[name_b]
                change = scale * (product(a, b, lora["rank"]) if tensor.name in of_parameters else b @ a)
                if tensor.transposed:
                    change = change.reshape(*tensor.shape[:-2], *tensor.shape[:-3:-1]).swapaxes(-1, -2)
                changes[tensor.name] = relative_norm(change, weight)
                weight += change.reshape(weight.shape)
            yield weight

    write = partial(_write_gguf, part=part, numbers=numbers) if is_gguf else partial(
        _write_folder, classes=session.classes
    )  # fmt: skip
    if part and not is_gguf:
        whole = find_whole_model(bundle, description["model"]["name"], adapter, base)
        write = partial(write, beside=BesideText(whole, part, [tensor.name for tensor in tensors]))
    # What overflows is refused by the tensor's name.
    with np.errstate(over="ignore", invalid="ignore"):
        size, roundings, modelfile = write(bundle / "tokenizer", output, tensors, merged(), dtype)
    return MergeResult(len(tensors), size, changes, roundings, onto, modelfile, is_gguf and part is not None)


def _write_folder(
    source: Path,
    output: Path,
    tensors: list[_Tensor],
    merged: Iterator[np.ndarray],
    dtype: str,
    classes: Sequence[str] = (),
    beside: BesideText | None = None,
) -> tuple[int, dict[str, float], None]:
    """For transformers; the bytes of its weights, and their roundings."""
    config = model_config(source / "config.json", dtype)
    if classes:
        config["id2label"] = {str(number): name for number, name in enumerate(classes)}
        config["label2id"] = {name: number for number, name in enumerate(classes)}
    text = config.get("text_config")
    for fields in filter(None, (config, text if beside else None)):
        fields["dtype"] = config["dtype"]
        if _has_untied(tensors):
            fields["tie_word_embeddings"] = False
    with new_folder(output, "nothing was, choose another place") as folder:
        copy_files(source, folder)
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        names = beside.names if beside else {tensor.name: tensor.name for tensor in tensors}
        shapes = {names[tensor.name]: tensor.shape for tensor in tensors}
        elements = sum(math.prod(shape) for shape in shapes.values())
        check_space(output.absolute().parent, elements * ELEMENT_TYPES[dtype].bytes, "the merged model")
        file = folder / (TEXT if beside else "model.safetensors")
        roundings = write_tensors(file, shapes, merged, dtype)
        if beside:
            beside.write(folder)
        return file.stat().st_size + (beside.bytes if beside else 0), roundings, None


def _write_gguf(
    source: Path,
    output: Path,
    tensors: list[_Tensor],
    merged: Iterator[np.ndarray],
    dtype: str,
    part: TextPart | None = None,
    numbers: Mapping[str, float] = MappingProxyType({}),
) -> tuple[int, dict[str, float], Modelfile | None]:
    """For llama.cpp; the bytes of the file, the roundings of its tensors, and what is beside it."""
    from mebp.gguf.ahead import say_left_out
    from mebp.gguf.model import ModelWriter

    called = part.text_name if part else str  # llama.cpp has the text alone in this file
    writer = ModelWriter(source, {called(tensor.name): tensor.shape for tensor in tensors}, dtype)
    modelfile = modelfile_beside(output, source.parent)
    check_space(output.absolute().parent, writer.bytes, "the merged model")
    beside = modelfile.written() if modelfile else nullcontext()
    with beside, replaced_file(output, "nothing was, choose another place") as file:
        roundings = writer.write(file, merged, output.stem, numbers)
    say_left_out(f"{output}", writer.ahead)
    return output.stat().st_size, roundings, modelfile


def _has_untied(tensors: list[_Tensor]) -> bool:
    """Whether one weight of the bundle became two."""
    return len({tensor.index for tensor in tensors}) < len(tensors)


def _tensors(weights: list[dict], shapes: list[tuple[int, ...]], trainables: Mapping[str, np.ndarray]) -> list[_Tensor]:
    """One for each weight; a tied one whose head alone is adapted becomes two, which are not tied any more."""

    def names(weight: dict) -> list[str]:
        every = [weight["name"], *weight["aliases"]]
        stored = stored_name(every)
        return [stored, *(name for name in every if name != stored and lora_factors(name)[0] in trainables)]

    return [
        _Tensor(name, index, shapes[index], weight["transposed"])
        for index, weight in enumerate(weights)
        if is_of_model(weight["name"]) and not is_factor(weight["name"])
        for name in names(weight)
    ]
