# SPDX-License-Identifier: Apache-2.0
"""The weights that a bundle's model was published with, as a bundle of their own that rounds nothing.

The exporter knows what checkpoints call a tensor, which are tied, and how experts are joined; the compiler, which lie
transposed. So the published weights come through both, under the bundle's own names.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.adapters.origin import find_origin
from mebp.compiler import LoRA, compile
from mebp.errors import Error
from mebp.exporter.checkpoint import read_checkpoint
from mebp.exporter.finding import Found, find_here, find_model
from mebp.extension import load_runtime
from mebp.files import check_space
from mebp.inspect import inspect, layers_of, storage_options
from mebp.merging.compiling import Stage, export_like, silent
from mebp.remote_adapters import is_factor
from mebp.session import Session
from mebp.tensor_names import is_of_model
from mebp.tokenizer import trained_tokens

EXACT = "f32"  # of activations
_OTHER_PLACE = "--base MODEL names another place of it"


@dataclass(frozen=True)
class Published:
    """`bundle` has the weights of `model` in `storage`, bf16 or f32, which holds them exactly. `stored` has those that
    the trained bundle stores, to be compared with them: both compute in f32, where kernels for two storages differ by
    nothing that counts. `differs`: the first tensor that is not what the trained bundle was made of; then `stored` is
    another model's."""

    model: str
    bundle: Path
    storage: str
    stored: Path
    differs: str | None


def open_adapted(bundle: Path, trainables: Mapping[str, np.ndarray]) -> Session:
    """One of the two, with an adapter as as_lora has it; of no trainables, without. What is trained as itself, such as
    a classifier's head, has the trained values."""
    session = Session(bundle, forward_only=True)
    own = session.trainables()
    if unknown := trainables.keys() - own.keys():
        raise Error(f"{bundle}: has no '{min(unknown)}', which the adapter has; report it")
    untrained = {name: _nothing(name, values) for name, values in own.items()}
    given = {name: values.reshape(own[name].shape) for name, values in trainables.items()}
    session.set_trainables(untrained | given)
    return session


def _nothing(name: str, values: np.ndarray) -> np.ndarray:
    return np.zeros_like(values) if ".lora_" in name else values


def known_models(stated: str, adapter: Path) -> Iterator[Found]:
    """What this machine has made the adapter of, and what a bundle states, as far as they are here: nothing is fetched
    because a file names it."""
    origin = find_origin(adapter)
    for name in filter(None, (origin and origin.model, stated)):
        found = find_here(name)
        if found and found.place.exists():
            yield found


def compile_published(bundle: Path, adapter: Path, base: str | None, scratch: Path, stage: Stage = silent) -> Published:
    """Exports and compiles them into `scratch`. base: what the user calls the published model, which may be fetched;
    None for the one that the bundle was made of.

    Raises mebp.Error where the model is gone, lacks one of the bundle's tensors, or has one of another shape.
    """
    description = inspect(bundle)
    stated = description["model"]["name"]
    found = find_model(base) if base is not None else next(known_models(stated, adapter), None)
    if found is None:
        raise Error(f"{bundle}: was made of '{stated}', which is not here as it was; --base MODEL names its place")
    storage = _storage(found)
    elements = sum(each["rows"] * each["columns"] for each in description["weights"])
    needed = elements * (2 if storage == "bf16" else 4) + description["weights_bytes"]
    check_space(scratch.parent, needed, "a bundle of the published weights")
    stage(f"exporting {found.name} as it was published")
    try:
        with found.as_typed():
            exported = export_like(description, found.place, scratch, trained_tokens(bundle, description))
    except Error as error:
        raise Error(f"{error}; {_OTHER_PLACE}") from None
    stage(f"compiling it as {storage}, which rounds nothing")
    adapted = {
        "lora": _lora_of(description["model"]["lora"]),
        "lora_layers": layers_of(description),
        "value_head": bool(description["manifest"]["options"].get("value_head")),
    }
    made, again = scratch / "published.mebp", scratch / "stored.mebp"
    compile(exported, made, weights=storage, precision=EXACT, **adapted)
    _check_shapes(bundle, description, inspect(made), found)
    stage("comparing it with what the bundle was made of")
    compile(exported, again, **(storage_options(description) | {"precision": EXACT}), **adapted)
    return Published(found.origin, made, storage, again, _first_other(bundle, description, again))


def _lora_of(lora: Mapping) -> LoRA:
    targets, stabilized = [*lora["target_modules"], *lora["target_parameters"]], lora["rslora_alpha"]
    return LoRA(lora["rank"], stabilized or lora["alpha"], targets, rslora=bool(stabilized))


def _storage(found: Found) -> str:
    """The smallest that holds all of its numbers."""
    if found.is_gguf:
        return "f32"
    types = {tensor.dtype for tensor in read_checkpoint(found.place).values()}
    return "f32" if types & {"F32", "F16", "U32"} else "bf16"  # U32: codes of MLX, which are dequantised to f32


def _of_model(description: dict) -> dict[str, tuple[int, dict]]:
    """Those that are the model's, each with its number in the bundle."""
    return {
        weight["name"]: (index, weight)
        for index, weight in enumerate(description["weights"])
        if is_of_model(weight["name"]) and not is_factor(weight["name"])
    }


def _check_shapes(bundle: Path, trained: dict, published: dict, found: Found) -> None:
    theirs = _of_model(published)
    for name, (_, weight) in _of_model(trained).items():
        if name not in theirs:
            raise Error(f"{found.place}: has no tensor '{name}', which {bundle} has; {_OTHER_PLACE}")
        own, other = ([each["rows"], each["columns"]] for each in (weight, theirs[name][1]))
        if own != other:
            raise Error(f"{found.place}: tensor '{name}' is {other}, and {own} in {bundle}; {_OTHER_PLACE}")


def _first_other(bundle: Path, description: dict, again: Path) -> str | None:
    """Compares each tensor's numbers with those of the published weights, stored likewise."""
    own, other = (load_runtime().Bundle(str(each)) for each in (bundle, again))
    places = {name: index for name, (index, _) in _of_model(inspect(again)).items()}
    differs = (
        name
        for name, (index, _) in _of_model(description).items()
        if not np.array_equal(own.read_weight(index), other.read_weight(places[name]))
    )
    return next(differs, None)
