# SPDX-License-Identifier: Apache-2.0
"""A GGUF file as a folder for transformers: its tensors dequantised to f32, one at a time."""

import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from mebp.errors import Error, translate_errors
from mebp.extras import need_packages
from mebp.files import check_space
from mebp.gguf import READ_ADVICE, ROPE_FACTORS
from mebp.gguf.architectures import Architecture, architecture_named
from mebp.gguf.container import Container, StoredTensor, read_container
from mebp.gguf.metadata import ignored_window, model_config
from mebp.gguf.positions import read_factors
from mebp.gguf.shapes import check_tensors
from mebp.gguf.vocabulary import can_restore, set_around_text, special_id, write_tokenizer
from mebp.tensor_file import write_tensors
from mebp.words import say

_ROOM = "make room or choose another folder"
# Which makes a tokenizer by its kind. An older transformers, which lacks it, goes by the model's type alone.
_BY_KIND = "transformers.integrations.gguf"
_ENDS_OF_TURN = ("eot", "eom")  # llama.cpp ends a generation with these, too


def unpack_gguf(file: Path, target: Path, with_weights: bool = True) -> None:
    """Makes the new folder `target`, with config.json, the tokenizer and, unless told otherwise, model.safetensors.

    Raises mebp.Error where the file is cut off or damaged, or has a model or a type that cannot be read.
    """
    with called(file, target):
        _unpack(file, target, with_weights)


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


def _unpack(file: Path, target: Path, with_weights: bool) -> None:
    container = read_container(file)
    kind = container.text("general.type") or "model"
    if kind != "model":
        raise Error(f"{file}: is not a model, for its general.type is {kind[:60]}; give the base model")
    architecture = architecture_named(container.text("general.architecture", needed=True), f"{file}")
    names = {tensor.name: _name(file, architecture, tensor.name) for tensor in container.tensors
             if tensor.name != ROPE_FACTORS}  # fmt: skip
    with translate_errors(f"{file}: cannot be unpacked", _ROOM):
        target.mkdir(exist_ok=True)
        config = _write_settings(container, architecture, target)
        _write_tokenizer(container, target)
    if not with_weights:
        return
    check_tensors(container, architecture, config)
    shapes = {names[tensor.name]: tensor.shape[::-1] if _is_turned(architecture, names, tensor) else tensor.shape
              for tensor in container.tensors if tensor.name in names}  # fmt: skip
    check_space(target, 4 * sum(map(math.prod, shapes.values())), f"{file.name} in f32")
    tensors = _tensors(container, architecture, names, config)
    with translate_errors(f"{file}: cannot be unpacked", _ROOM):
        write_tensors(target / "model.safetensors", shapes, tensors, "f32")


def _name(file: Path, architecture: Architecture, theirs: str) -> str:
    module, _, parameter = theirs.rpartition(".")
    ours = architecture.from_gguf(module)
    if ours is None or parameter not in ("weight", "bias"):
        raise Error(f"{file}: has the tensor '{theirs}', which is not known in architecture '{architecture.name}'; "
                    f"{READ_ADVICE}")  # fmt: skip
    return f"{ours}.{parameter}"


def _is_turned(architecture: Architecture, names: dict[str, str], tensor: StoredTensor) -> bool:
    return len(tensor.shape) == 2 and architecture.is_transposed(names[tensor.name].removesuffix(".weight"))


def _tensors(
    container: Container, architecture: Architecture, names: dict[str, str], config: dict
) -> Iterator[np.ndarray]:
    for tensor in container.tensors:
        if tensor.name not in names:
            continue
        values, module = container.values(tensor), names[tensor.name].rpartition(".")[0]
        order = architecture.row_order(module, len(values), config, f"{container.path}")
        if order is not None:
            values = values[np.argsort(order)]
        elif _is_turned(architecture, names, tensor):
            values = values.T
        elif architecture.norm_offset and values.ndim == 1 and module.endswith("norm"):
            values = values - np.float32(architecture.norm_offset)
        yield values


def _write_settings(container: Container, architecture: Architecture, target: Path) -> dict:
    """config.json and generation_config.json; the fields of the first."""
    fields = model_config(architecture, container)
    read_factors(container, architecture.name, fields)
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
