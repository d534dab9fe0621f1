# SPDX-License-Identifier: Apache-2.0
"""A GGUF file as a folder for transformers: its tensors dequantised to f32, one at a time."""

import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mebp.errors import Error, translate_errors
from mebp.extras import need_packages
from mebp.files import check_space
from mebp.gguf.architectures import Architecture, architecture_named
from mebp.gguf.container import Container, StoredTensor, read_container
from mebp.gguf.metadata import model_config, rope_factors
from mebp.gguf.vocabulary import can_restore, write_tokenizer
from mebp.tensor_file import write_tensors
from mebp.words import say

_FACTORS = "rope_freqs.weight"
# Of Llama 3.1 and later; only the factor differs, and the file has what comes of it.
_LLAMA_ROPE = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def unpack_gguf(file: Path, target: Path, with_weights: bool = True) -> None:
    """Makes the new folder `target`, with config.json, the tokenizer and, unless told otherwise, model.safetensors.

    Raises mebp.Error where the file is cut off or damaged, or has a model or a type that cannot be read.
    """
    container = read_container(file)
    kind = container.text("general.type") or "model"
    if kind != "model":
        raise Error(f"{file}: is not a model, for its general.type is {kind[:60]}; give the base model")
    architecture = architecture_named(container.text("general.architecture", needed=True), f"{file}")
    names = {tensor.name: _name(file, architecture, tensor.name) for tensor in container.tensors
             if tensor.name != _FACTORS}  # fmt: skip
    with translate_errors(f"{target}: cannot be written", "make room or choose another folder"):
        target.mkdir(exist_ok=True)
        config = _write_settings(container, architecture, target)
        _write_tokenizer(container, target)
    if not with_weights:
        return
    shapes = {names[tensor.name]: tensor.shape[::-1] if _is_turned(architecture, names, tensor) else tensor.shape
              for tensor in container.tensors if tensor.name in names}  # fmt: skip
    check_space(target, 4 * sum(map(math.prod, shapes.values())), f"{file.name} in f32")
    tensors = _tensors(container, architecture, names, config)
    with translate_errors(f"{file}: cannot be unpacked", "make room or choose another folder"):
        write_tensors(target / "model.safetensors", shapes, tensors, "f32")


def _name(file: Path, architecture: Architecture, theirs: str) -> str:
    module, _, parameter = theirs.rpartition(".")
    ours = architecture.from_gguf(module)
    if ours is None or parameter not in ("weight", "bias"):
        raise Error(f"{file}: has the tensor '{theirs}', which is not known in architecture '{architecture.name}'; "
                    "export the model's Hugging Face folder")  # fmt: skip
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
    _set_rope(container, fields)
    config = {"architectures": [architecture.model_class], **fields, "dtype": "float32"}
    ends = {name: value for name, value in fields.items() if name.endswith("_token_id")}
    for name, content in (("config.json", config), ("generation_config.json", ends)):
        (target / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return fields


def _write_tokenizer(container: Container, target: Path) -> None:
    file, kind = container.path, container.text("tokenizer.ggml.model") or "no_vocab"
    if can_restore(container):
        write_tokenizer(container, target)
    elif kind != "no_vocab":
        need_packages(f"{file}: its tokenizer", "export", "transformers")
        advice = "export the model's Hugging Face folder"
        with translate_errors(f"{file}: transformers cannot read its tokenizer", advice, Exception):
            _convert_tokenizer(file, target)
        rule = container.text("tokenizer.ggml.pre") or "default"
        if kind == "gpt2":
            say(f"warning: {file}: its rule to cut text, '{rule[:60]}', is not known here; compare tokenizer/ beside "
                "the ONNX file with the model's own", error=True)  # fmt: skip


def _convert_tokenizer(file: Path, target: Path) -> None:
    """By transformers, which sees nothing that lies beside the file: a tokenizer_config.json there could name code."""
    from transformers import AutoTokenizer

    from mebp.exporter.offline import offline

    with tempfile.TemporaryDirectory(prefix="mebp-gguf-") as alone, offline():
        (Path(alone) / "model.gguf").symlink_to(file.resolve())
        found = AutoTokenizer.from_pretrained(alone, gguf_file="model.gguf", trust_remote_code=False)
        found.save_pretrained(target)


def _set_rope(container: Container, config: dict) -> None:
    """The file has the factors themselves, and transformers what they are made of."""
    found = next((tensor for tensor in container.tensors if tensor.name == _FACTORS), None)
    if found is None:
        return
    factors, rope = container.values(found), config.get("rope_parameters", {})
    expected = None
    if "rope_theta" in rope and factors.shape == (-(-config["head_dim"] // 2),) and factors.min() >= 1:
        rope |= {**_LLAMA_ROPE, "factor": float(factors.max())}
        expected = rope_factors(config)
    if expected is None or not np.allclose(factors, expected, rtol=1e-5):
        raise Error(f"{container.path}: has factors of positions ({_FACTORS}) that are not those of Llama 3; export "
                    "the model's Hugging Face folder")  # fmt: skip
