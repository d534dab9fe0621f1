# SPDX-License-Identifier: Apache-2.0
"""What torch makes of a model's code, kept from one session of tests to the next as ccache keeps objects: it takes
seconds, nine tenths of an export. A trace serves again while all that it is made of is the same: the exporter's
sources, the libraries, the model's code and settings, its numbers, and the shapes of its parameters."""

import functools
import hashlib
import inspect
import os
import shutil
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import onnx
import onnx_ir as ir
import torch
from torch.onnx._internal.exporter._core import TorchTensor
from transformers import PretrainedConfig, PreTrainedModel

from mebp.exporter import graph, write
from support.exports import keep_in

_LIBRARIES = ("torch", "transformers", "onnx", "onnx_ir", "onnxscript")
_LONGEST_UNUSED = 86400.0  # seconds; what other sources made may be another session's
_PLACES = ("_name_or_path", "name_or_path")  # of the model's folder, where the same model may lie twice
_LATER = "parameter"  # where a parameter's data are: an export says that after it has traced


def keep_traces() -> None:
    """Of all exports in this process and in forks of it."""
    write.trace = kept
    for folder in _folder().parent.glob("*"):
        if folder != _folder() and time.time() - folder.stat().st_mtime > _LONGEST_UNUSED:
            shutil.rmtree(folder, ignore_errors=True)


def kept(model: PreTrainedModel, batch: int, seq_len: int) -> ir.Model:
    """As mebp.exporter.graph.trace."""
    digest = hashlib.sha256(f"{batch} {seq_len}".encode())
    for line in _description(model):
        digest.update(line.encode() + b"\n")
    made = keep_in(
        _folder(),
        digest.hexdigest(),
        lambda folder: _write(graph.trace(model, batch, seq_len), model, folder / "graph.onnx"),
    )
    return _read(made / "graph.onnx", model)


@functools.cache
def _folder() -> Path:
    sources = [Path(__file__), *sorted(Path(graph.__file__).parent.glob("*.py"))]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources))
    digest.update(f"{sys.version} {[version(library) for library in _LIBRARIES]}".encode())
    return Path(os.environ["MEBP_CACHE"]) / "traces" / digest.hexdigest()


def _write(traced: ir.Model, model: PreTrainedModel, path: Path) -> None:
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if value := traced.graph.initializers.get(name):
            shape = ir.Shape(parameter.shape)
            value.const_value = ir.ExternalTensor(_LATER, 0, 0, value.dtype, shape=shape, name=name)
    path.write_bytes(ir.to_proto(traced).SerializeToString())


def _read(path: Path, model: PreTrainedModel) -> ir.Model:
    traced = ir.from_proto(onnx.load_model(path, load_external_data=False))
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if value := traced.graph.initializers.get(name):
            value.const_value = TorchTensor(parameter, name=name)
    return traced


def _description(model: PreTrainedModel) -> Iterator[str]:
    """All of the model that a trace of it may depend on."""
    tied: dict[int, str] = {}
    for name, module in model.named_modules():
        yield f"{name}: {type(module).__module__}.{type(module).__qualname__} {_digest_of_code(type(module))}"
        for key, value in sorted(vars(module).items()):
            if not key.startswith("_") and key not in _PLACES:
                yield f"{name}.{key}: {_described(value)}"
        for key, parameter in module.named_parameters(recurse=False):
            same = tied.setdefault(id(parameter), f"{name}.{key}")
            yield f"{name}.{key}: {parameter.dtype} {tuple(parameter.shape)} {same}"
        for key, buffer in module.named_buffers(recurse=False):
            yield f"{name}.{key}: {_described(buffer)}"


def _described(value: object) -> str:
    if isinstance(value, torch.Tensor):
        content = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
        return f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(content).hexdigest()}"
    if isinstance(value, PretrainedConfig):
        implementation = (value._attn_implementation, value._experts_implementation)
        return f"{_described(value.to_dict())} {implementation}"
    if isinstance(value, list | tuple):
        return str([_described(each) for each in value])
    if isinstance(value, set | frozenset):
        return str(sorted(map(_described, value)))
    if isinstance(value, dict):
        return str([(str(key), _described(each)) for key, each in value.items() if key not in _PLACES])
    if inspect.isroutine(value):
        cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        return f"{value.__module__}.{value.__qualname__} {[_described(each) for each in cells]}"
    if isinstance(value, torch.nn.Module):
        return type(value).__qualname__  # one of the modules, whose turn comes
    return f"{type(value).__qualname__} {value if ' at 0x' not in repr(value) else ''}"


@functools.cache
def _digest_of_code(kind: type) -> str:
    return hashlib.sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest()
