# SPDX-License-Identifier: Apache-2.0
"""A GGUF file as a folder for transformers: its tensors dequantised to f32, one at a time."""

import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from mebp.errors import Error, translate_errors
from mebp.extras import need_packages
from mebp.files import check_space
from mebp.gguf import READ_ADVICE, ROPE_FACTORS
from mebp.gguf.ahead import layers_ahead, say_left_out, without_ahead
from mebp.gguf.architecture import Architecture
from mebp.gguf.architectures import architecture_in
from mebp.gguf.blocks import find_movable, write_blocks
from mebp.gguf.codes import is_kept_by_default, kept
from mebp.gguf.container import Container, read_container
from mebp.gguf.metadata import ignored_window, model_config
from mebp.gguf.shapes import check_tensors
from mebp.gguf.vocabulary import can_restore, set_around_text, special_id, write_tokenizer
from mebp.gguf.weights import Place
from mebp.tensor_file import write_tensors
from mebp.words import say

_ROOM = "make room or choose another folder"
# Which makes a tokenizer by its kind. An older transformers, which lacks it, goes by the model's type alone.
_BY_KIND = "transformers.integrations.gguf"
_ENDS_OF_TURN = ("eot", "eom")  # llama.cpp ends a generation with these, too


@dataclass(frozen=True)
class Unpacked:
    """blocks: the types of what is in BLOCKS, by the tensors' names. kept: what a bundle keeps of the codes, as lines.
    is_found_again: mebpc finds all codes in the numbers."""

    blocks: dict[str, str]
    kept: list[str]
    is_found_again: bool


def unpack_gguf(file: Path, target: Path, with_weights: bool = True) -> Unpacked:
    """Makes the new folder `target`, with config.json, the tokenizer and, unless told otherwise, model.safetensors
    and, where a bundle has to be told of the file's blocks to keep them, BLOCKS.

    Raises mebp.Error where the file is cut off or damaged, or has a model or a type that cannot be read.
    """
    with called(file, target):
        return _unpack(file, target, with_weights)


@contextmanager
def called(file: Path, folder: Path) -> Iterator[None]:
    """Errors in the block are about `file`, and not about `folder`, into which it is unpacked for a while."""
    try:
        yield
    except Error as error:
        line = str(error)
        if str(folder) not in line:
            raise
        for place in (*sorted(folder.rglob("*"), reverse=True), folder):
            line = line.replace(str(place), str(file))
        raise Error(line) from error


def _unpack(file: Path, target: Path, with_weights: bool) -> Unpacked:
    container = read_container(file)
    kind = container.text("general.type") or "model"
    if kind != "model":
        raise Error(f"{file}: is not a model, for its general.type is {kind[:60]}; give the base model")
    model = without_ahead(container)
    architecture = architecture_in(model)
    ours = _names(model, architecture)
    with translate_errors(f"{file}: cannot be unpacked", _ROOM):
        target.mkdir(exist_ok=True)
        config = _write_settings(container, architecture, target)
        _write_tokenizer(container, target)
    say_left_out(f"{file}", layers_ahead(container))
    if not with_weights:
        return Unpacked({}, [], True)
    there = check_tensors(model, architecture, config)
    places = {name: _placed(architecture, name, config, file) for name in ours}
    shapes = {name: place.shape_here([there[each] for each in place.names]) for name, place in places.items()}
    check_space(target, 4 * sum(map(math.prod, shapes.values())), f"{file.name} in f32")
    with translate_errors(f"{file}: cannot be unpacked", _ROOM):
        write_tensors(target / "model.safetensors", shapes, _tensors(model, places, there), "f32")
        return _keep_blocks(model, places, target)


def _keep_blocks(model: Container, places: dict[str, Place], target: Path) -> Unpacked:
    movable = find_movable(model, places)
    lines = kept(model, movable)
    if is_kept_by_default(model, movable):
        return Unpacked({}, lines, True)
    check_space(target, sum(tensor.length for each in movable.values() for tensor in each.tensors), "its blocks")
    return Unpacked(write_blocks(model, movable, target), lines, False)


def _names(container: Container, architecture: Architecture) -> list[str]:
    """transformers' names of all tensors, each once."""
    found = {}
    for tensor in container.tensors:
        if tensor.name == ROPE_FACTORS:
            continue
        ours = architecture.from_gguf(tensor.name)
        if ours is None:
            raise Error(f"{container.path}: has the tensor '{tensor.name}', which is not known in architecture "
                        f"'{architecture.name}'; {READ_ADVICE}")  # fmt: skip
        found[ours[0]] = None
    return [*found]


def _placed(architecture: Architecture, name: str, config: dict, file: Path) -> Place:
    place = architecture.place(name, config, f"{file}")
    assert place is not None  # llama.cpp's name was found by the same table
    return place


def _tensors(container: Container, places: dict[str, Place], there: dict[str, tuple[int, ...]]) -> Iterator[np.ndarray]:
    stored = {tensor.name: tensor for tensor in container.tensors}
    for place in places.values():
        yield place.here([container.values(stored[name]).reshape(there[name]) for name in place.names])


def _write_settings(container: Container, architecture: Architecture, target: Path) -> dict:
    """config.json and generation_config.json; the fields of the first."""
    fields = model_config(architecture, container)
    architecture.read_factors(container, fields)
    if note := ignored_window(architecture, container):
        say(f"note: {note}", error=True)
    config = {"architectures": [architecture.model_class], **fields, "dtype": "float32"}
    ends = {name: value for name, value in fields.items() if name.endswith("_token_id")}
    stops = [ends["eos_token_id"], *(special_id(container, name, fields["vocab_size"] - 1) for name in _ENDS_OF_TURN)]
    stops = [stop for stop in dict.fromkeys(stops) if stop is not None]
    if len(stops) > 1:
        ends["eos_token_id"] = stops
    for name, content in (("config.json", config), ("generation_config.json", ends)):
        (target / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return fields


def _write_tokenizer(container: Container, target: Path) -> None:
    file, kind = container.path, container.text("tokenizer.ggml.model") or "no_vocab"
    if can_restore(container):
        write_tokenizer(container, target)
    elif kind not in ("no_vocab", "none"):
        need_packages(f"{file}: its tokenizer", "export", "transformers")
        _convert_tokenizer(file, kind, target)
        if kind == "gpt2":
            set_around_text(container, target)
            rule = container.text("tokenizer.ggml.pre") or "default"
            say(f"warning: {file}: its rule to cut text, '{rule[:60]}', is not known here; compare tokenizer/ beside "
                "the ONNX file with the model's own", error=True)  # fmt: skip


def _convert_tokenizer(file: Path, kind: str, target: Path) -> None:
    """By transformers, which sees nothing that lies beside the file: a tokenizer_config.json there could name code."""
    from transformers import AutoTokenizer

    from mebp.exporter.offline import offline

    unread = f"{file}: transformers cannot read its tokenizer, whose 'tokenizer.ggml.model' is '{kind[:60]}'"
    if kind != "gpt2" and not find_spec(_BY_KIND):
        raise Error(f"{unread}; {READ_ADVICE}")
    with tempfile.TemporaryDirectory(prefix="mebp-gguf-") as alone, offline():
        (Path(alone) / "model.gguf").symlink_to(file.resolve())
        try:
            found = AutoTokenizer.from_pretrained(alone, gguf_file="model.gguf", trust_remote_code=False)
        except Exception as error:
            raise Error(f"{unread}; {READ_ADVICE}") from error
        found.save_pretrained(target)
