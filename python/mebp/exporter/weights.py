# SPDX-License-Identifier: Apache-2.0
"""Ties a graph's initializers to the tensors of the model's own files, and lays those files beside the graph."""

import errno
import math
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import onnx_ir as ir

from mebp.element_types import STORED_TYPES
from mebp.errors import Error
from mebp.exporter.checkpoint import StoredTensor, is_of_mlx
from mebp.files import check_space, is_own
from mebp.tensor_names import spellings
from mebp.words import say

# The location of every weight of a graph that was exported from a config alone.
SHAPE_ONLY = "shape-only"
MERGE = "merge it (PEFT's merge_and_unload), save, and export again"
_OF_MLX = "MLX stored it in its own form; export the model that it was converted from"


def locate(
    parameters: dict[str, tuple[int, ...]],
    aliases: dict[str, list[str]],
    prefix: str,
    checkpoint: dict[str, StoredTensor],
    folder: Path,
) -> dict[str, StoredTensor]:
    """The stored tensor of each parameter (name -> shape), under its own name, an alias, or one that lacks or has the
    base model's prefix; raises Error where one is missing or differs in shape."""
    located = {}
    for name, shape in parameters.items():
        known = (spelling for alias in aliases.get(name, [name]) for spelling in spellings(alias, prefix))
        stored = next((spelling for spelling in known if spelling in checkpoint), None)
        if stored is None:
            raise Error(f"{folder}: no tensor '{name}', which its config.json asks for; {_instead(name, checkpoint)}")
        _check(stored, checkpoint[stored], shape)
        located[name] = checkpoint[stored]
    return located


def _instead(name: str, checkpoint: dict[str, StoredTensor]) -> str:
    """What the checkpoint has in its place, and what to do."""
    module, _, kind = name.rpartition(".")
    for stored in checkpoint:
        if stored.endswith((f"{module}.base_layer.{kind}", f"{module}.original_module.{kind}")):
            return f"the checkpoint has '{stored}', part of an adapter; {MERGE}"
        if stored.endswith(f"{module}.qweight"):
            return f"the checkpoint has '{stored}'; export the full-precision model instead, mebpc quantises it"
        if stored.endswith(f".{name}"):
            return f"the checkpoint calls it '{stored}'; rename the tensors, or save the model with save_pretrained"
    if any(map(is_of_mlx, {tensor.file for tensor in checkpoint.values()})):
        return _OF_MLX
    return "either the two do not belong together, or the weights are stored in a form that export does not read"


def check_pieces(name: str, shape: tuple[int, ...], pieces: dict[str, StoredTensor]) -> None:
    """Raises Error where the pieces do not make up a parameter of this shape: matrices of experts, which are alike, or
    parts with all its axes."""
    places = f"{next(iter(pieces.values())).file}: the parts of '{name}'"
    if all(len(tensor.shape) == len(shape) for tensor in pieces.values()):
        for piece, tensor in pieces.items():
            _check(piece, tensor, (tensor.shape[0], *shape[1:]))
        if sum(tensor.shape[0] for tensor in pieces.values()) != shape[0]:
            raise Error(f"{places} do not make up {list(shape)}; use the config.json that belongs to the weights")
    else:
        experts, rows, width = shape
        for piece, tensor in pieces.items():
            _check(piece, tensor, (experts * rows // len(pieces), width))
    if len({tensor.dtype for tensor in pieces.values()}) > 1:
        raise Error(f"{places} differ in type; save the model again")


def _check(stored: str, tensor: StoredTensor, shape: tuple[int, ...]) -> None:
    if tensor.shape != shape:
        advice = _OF_MLX if is_of_mlx(tensor.file) else "use the config that belongs to the weights"
        raise Error(
            f"{tensor.file}: tensor '{stored}' is {list(tensor.shape)}, config.json makes it {list(shape)}; {advice}"
        )
    if tensor.dtype not in STORED_TYPES:
        types = ", ".join(STORED_TYPES)
        raise Error(f"{tensor.file}: tensor '{stored}' is {tensor.dtype}; export takes {types} weights")
    if tensor.length != math.prod(shape) * STORED_TYPES[tensor.dtype].bytes:
        raise Error(f"{tensor.file}: tensor '{stored}' has {tensor.length} bytes for its shape; download it again")


def refer(graph: ir.Graph, tensors: dict[str, StoredTensor]) -> None:
    """Makes each initializer in `tensors` external data in its own file and stored type, with a cast after it where
    the graph computes in another type."""
    for name, tensor in tensors.items():
        value = graph.initializers[name]
        computed = value.dtype
        stored = ir.DataType[STORED_TYPES[tensor.dtype].onnx]
        value.const_value = ir.ExternalTensor(
            tensor.file.name, tensor.offset, tensor.length, stored, shape=ir.Shape(tensor.shape), name=name
        )
        if computed != stored:
            _cast(graph, value, stored, computed)


def refer_to_pieces(graph: ir.Graph, name: str, pieces: dict[str, StoredTensor]) -> None:
    """Makes the initializer `name` the pieces' rows one after the other, each external data."""
    value = graph.initializers.pop(name)
    computed, shape = value.dtype, value.shape
    inputs = []
    for piece, tensor in pieces.items():
        stored = ir.DataType[STORED_TYPES[tensor.dtype].onnx]
        external = ir.ExternalTensor(
            tensor.file.name, tensor.offset, tensor.length, stored, shape=ir.Shape(tensor.shape), name=piece
        )
        graph.register_initializer(
            ir.Value(name=piece, type=ir.TensorType(stored), shape=external.shape, const_value=external)
        )
        inputs.append(graph.initializers[piece])
    axes = ir.tensor(list(shape.numpy()), name=f"{name}.shape")
    nodes = [ir.node("Concat", inputs, attributes={"axis": 0}, name=f"{name}.concat")]
    nodes[-1].outputs[0].name = name
    if inputs[0].dtype != computed:
        nodes.append(ir.node("Cast", [nodes[-1].outputs[0]], attributes={"to": computed}, name=f"{name}.cast"))
        nodes[-1].outputs[0].name = f"{name}.as_{computed.name.lower()}"
    nodes.append(ir.node("Constant", [], attributes={"value": axes}, name=f"{name}.shape"))
    nodes[-1].outputs[0].name = f"{name}.shape"
    nodes.append(ir.node("Reshape", [nodes[-2].outputs[0], nodes[-1].outputs[0]], name=f"{name}.view"))
    nodes[-1].outputs[0].name, nodes[-1].outputs[0].dtype = f"{name}.view", computed
    nodes[-1].outputs[0].shape = shape
    value.name = None
    ir.convenience.replace_all_uses_with(value, nodes[-1].outputs[0])
    graph.insert_before(graph[0], nodes)


def refer_to_nothing(graph: ir.Graph, parameters: Iterable[str]) -> None:
    """Gives the parameters' initializers a place that no file has: the compiler fills them in (--random-weights)."""
    for name in parameters:
        value = graph.initializers[name]
        length = math.prod(value.shape.numpy()) * int(value.dtype.itemsize)
        value.const_value = ir.ExternalTensor(SHAPE_ONLY, 0, length, value.dtype, shape=value.shape, name=name)


def place(files: Iterable[Path], folder: Path) -> None:
    """Hard-links the files into `folder`, or copies them and says so where the file system will not link."""
    for file in files:
        # A hub cache holds links to blobs, and ONNX readers refuse links.
        source, target = file.resolve(), folder / file.name
        if file.is_symlink() and not is_own(file):
            say(f"note: {file} is a link out of its folder: the weights are those of {source}", error=True)
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP):
                raise
            size = source.stat().st_size
            check_space(folder, size, f"a copy of {file.name}")
            say(f"note: {file.name} is copied, {size / 1e6:.1f} MB: it cannot be hard-linked to here", error=True)
            shutil.copy2(source, target)


def _cast(graph: ir.Graph, value: ir.Value, stored: ir.DataType, computed: ir.DataType) -> None:
    value.dtype = stored
    cast = ir.node("Cast", [value], attributes={"to": computed}, name=f"{value.name}.cast")
    cast.outputs[0].name = f"{value.name}.as_{computed.name.lower()}"
    cast.outputs[0].dtype, cast.outputs[0].shape = computed, value.shape
    ir.convenience.replace_all_uses_with(value, cast.outputs[0])
    cast.replace_input_with(0, value)
    graph.insert_before(graph[0], cast)
