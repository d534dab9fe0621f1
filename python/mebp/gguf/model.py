# SPDX-License-Identifier: Apache-2.0
"""A whole model as GGUF, tensor by tensor, so that it never has to be in memory."""

import math
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import numpy as np

from mebp.errors import Error, translate_errors
from mebp.exporter.template_files import DEFAULT
from mebp.exporter.text_parts import text_config
from mebp.extension import load_runtime
from mebp.extras import need_packages
from mebp.files import plain_file, read_json
from mebp.gguf import GGUF_TYPES, ROPE_FACTORS
from mebp.gguf.architectures import architecture_of
from mebp.gguf.fields import check_config
from mebp.gguf.gemma4 import GEMMA4
from mebp.gguf.metadata import model_metadata
from mebp.gguf.quantized_types import Sizes, is_quantized, quantized_types
from mebp.gguf.vocabulary import chat_templates, title_for, vocabulary
from mebp.gguf.weights import Place
from mebp.tensor_file import relative_norm

_LARGEST_F32 = 3.4e38
_LARGE_BLOCKS = ("Q4_K", "Q5_K", "Q6_K")  # which gguf reads, but does not write
_MOST_WORDS = 1 << 24
_ADVICE = "export and compile the model again"
# What is raised where something is missing, or of another type.
_MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class _Written(np.ndarray):
    """numpy's own way to a file does not say why the disk did not take it."""

    def tofile(self, file: BinaryIO) -> None:
        file.write(np.ascontiguousarray(self).data)


class ModelWriter:
    """Writes one file: what it is made of is checked first, then `write` takes the tensors."""

    def __init__(self, folder: Path, shapes: Mapping[str, tuple[int, ...]], dtype: str) -> None:
        """folder: has the model's config.json and tokenizer. shapes: of the tensors, by transformers' names."""
        need_packages("writing GGUF", "gguf", "gguf")
        self._file = file = folder / "config.json"
        self._config = text_config(read_json(plain_file(file), _ADVICE))
        self._architecture = architecture_of(self._config.get("model_type"), f"{file}")
        self._dtype, self._shapes = dtype, dict(shapes)
        check_config(self._config, file)
        # What the checks of single fields have missed.
        with translate_errors(f"{file}: has a field that is not as transformers writes it", _ADVICE, _MALFORMED):
            self._metadata = model_metadata(self._architecture, self._config, file)
            self._places = {name: self._placed(file, name) for name in shapes}
        self._check_metadata(file)
        with translate_errors(f"{folder / 'tokenizer.json'}: is not as tokenizers writes it", _ADVICE, _MALFORMED):
            self._vocabulary = self._read_vocabulary(folder)
            self._templates = chat_templates(folder)

    @property
    def bytes(self) -> int:
        """Of all tensors; the rest is a few MB."""
        return sum(self._size(*tensor) for name in self._shapes for tensor in self._tensors(name))

    @property
    def keys(self) -> set[str]:
        """Of the architecture, without its name before them."""
        return set(self._metadata)

    @property
    def ahead(self) -> int:
        """How many layers of the model predict tokens further ahead: a bundle does not have them, nor does the file."""
        found = self._config.get("mtp_num_hidden_layers")
        return found if type(found) is int else 0

    def write(
        self,
        path: Path,
        tensors: Iterable[np.ndarray],
        title: str,
        numbers: Mapping[str, float] = MappingProxyType({}),
    ) -> dict[str, float]:
        """Tensors come in float32, in the order of the shapes. Returns each one's rounding, as write_tensors does.
        numbers: more keys, in f32, which gguf.numbers.set_numbers may set later."""
        import gguf

        writer = gguf.GGUFWriter(path, self._architecture.name)
        self._describe(writer, title)
        for key, value in numbers.items():
            writer.add_float32(key, value)
        factors = self._architecture.factors({**self._architecture.usual, **self._config})
        if factors is not None:
            writer.add_tensor_info(ROPE_FACTORS, factors.shape, factors.dtype, factors.nbytes)
        for name in self._shapes:
            for theirs, shape, kind in self._tensors(name):
                size, of = self._size(theirs, shape, kind), gguf.GGMLQuantizationType[kind]
                writer.add_tensor_info(theirs, shape, np.dtype(np.float32), size, raw_dtype=of)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        if factors is not None:
            writer.write_tensor_data(factors)
        roundings = {}
        with np.errstate(over="ignore", invalid="ignore"):  # seen below, with the tensor's name
            for name, tensor in zip(self._shapes, tensors, strict=True):
                whole = tensor.reshape(self._shapes[name])  # a bundle has experts and convolutions as matrices
                parts, each = self._places[name].there(whole), []
                for part, (_, _, kind) in zip(parts, self._tensors(name), strict=True):
                    stored, rounding = self._round(name, part, kind)
                    writer.write_tensor_data(stored.view(_Written))
                    each.append(rounding)
                roundings[name] = each[0] if len(each) == 1 else _joined(each, [np.linalg.norm(part) for part in parts])
        writer.close()
        return roundings

    def _read_vocabulary(self, folder: Path) -> dict[str, object] | None:
        if not _has_tokenizer(folder):
            return None
        return vocabulary(folder, self._metadata["vocab_size"], self._architecture is GEMMA4)

    def _check_metadata(self, file: Path) -> None:
        """Numbers are those that GGUF can hold, and there are no more tokens than a model has."""
        for key, value in self._metadata.items():
            is_right = _fits(value) if type(value) is not list else all(map(_fits, value))
            if not is_right:
                raise Error(f"{file}: has {reprlib.repr(value)} for llama.cpp's '{key}', which GGUF cannot hold; "
                            f"{_ADVICE}")  # fmt: skip
        if type(words := self._metadata["vocab_size"]) is not int or words > _MOST_WORDS:
            raise Error(f"{file}: vocab_size is {words}, and no model has more than {_MOST_WORDS} tokens; {_ADVICE}")

    def _placed(self, file: Path, name: str) -> Place:
        found = self._architecture.place(name, self._config, f"{file}")
        if found is None:
            raise Error(
                f"{file}: tensor '{name}' has no name in llama.cpp's '{self._architecture.name}'; write a folder for "
                "transformers instead (-o DIR)"
            )
        return found

    def _tensors(self, name: str) -> Iterator[tuple[str, tuple[int, ...], str]]:
        """What the file has of one: names, shapes and types."""
        place = self._places[name]
        for theirs, shape in self._parts(name):
            yield theirs, shape, "F32" if len(shape) < 2 or place.is_exact else self._types[theirs]

    def _parts(self, name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        place = self._places[name]
        return zip(place.names, place.shapes_there(self._shapes[name]), strict=True)

    @cached_property
    def _types(self) -> dict[str, str]:
        """Of each tensor that is not f32 in any file."""
        shapes = dict(part for name in self._shapes for part in self._parts(name))
        kind = GGUF_TYPES[self._dtype][0]
        if not is_quantized(kind):
            return dict.fromkeys(shapes, kind)
        found = quantized_types(self._dtype, shapes, Sizes.of(self._architecture.name, self._metadata))
        if shapes and not any(map(is_quantized, found.values())):
            raise Error(f"{self._file}: no row of the model is a multiple of 32 numbers, which a block of "
                        f"'{self._dtype}' takes; choose f16")  # fmt: skip
        return found

    def _size(self, name: str, shape: tuple[int, ...], kind: str) -> int:
        import gguf

        block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
        return math.prod(shape) // block * size

    def _round(self, name: str, tensor: np.ndarray, type_name: str) -> tuple[np.ndarray, float]:
        import gguf

        tensor = np.ascontiguousarray(tensor, np.float32)
        if not np.isfinite(tensor).all():
            raise Error(f"tensor '{name}' is not finite; use an adapter from a run that did not diverge")
        kind = gguf.GGMLQuantizationType[type_name]
        if kind == gguf.GGMLQuantizationType.F32:
            return tensor, 0.0
        is_large = type_name in _LARGE_BLOCKS
        stored = load_runtime().quantize_rows(tensor, type_name) if is_large else gguf.quantize(tensor, kind)
        meant = stored.astype(np.float32) if kind == gguf.GGMLQuantizationType.F16 else gguf.dequantize(stored, kind)
        if not np.isfinite(meant).all():
            most = np.abs(tensor).max()
            raise Error(f"tensor '{name}' has {most:g}, which {type_name} cannot hold; choose f32")
        return stored, relative_norm(meant - tensor, tensor)

    def _describe(self, writer: object, title: str) -> None:
        import gguf

        writer.add_type("model")
        writer.add_name(title_for(self._file.parent, title))
        writer.add_file_type(gguf.LlamaFileType[GGUF_TYPES[self._dtype][1]])
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        for key, value in self._metadata.items():
            add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string, list: writer.add_array}
            add[type(value)](f"{self._architecture.name}.{key}", value)
        if self._vocabulary is None:
            writer.add_tokenizer_model("no_vocab")
            return
        for key, value in self._vocabulary.items():
            add = {int: writer.add_uint32, bool: writer.add_bool, str: writer.add_string, list: writer.add_array}
            add[type(value)](f"tokenizer.ggml.{key}", value)
        others = sorted(name for name in self._templates if name != DEFAULT and name.isidentifier())
        if DEFAULT in self._templates:
            writer.add_chat_template(self._templates[DEFAULT])
        if others:  # gguf's own way of several writes their names in any order
            writer.add_array("tokenizer.chat_templates", others)
        for name in others:
            writer.add_string(f"tokenizer.chat_template.{name}", self._templates[name])


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json"))


def _fits(value: object) -> bool:
    if type(value) in (int, bool):
        return 0 <= value < 1 << 32
    return type(value) is str or (isinstance(value, float) and abs(value) < _LARGEST_F32)


def _joined(roundings: list[float], norms: Iterable[float]) -> float:
    """Of a whole, by that of each part and its norm."""
    every = [*map(float, norms)]
    norm = math.hypot(*every)
    return math.hypot(*map(math.prod, zip(roundings, every, strict=True))) / norm if norm else 0.0
