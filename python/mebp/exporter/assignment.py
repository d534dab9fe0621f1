# SPDX-License-Identifier: Apache-2.0
"""Tensors that a model's code makes empty and then fills part by part, as the keys of latent attention. What fills them
is joined instead, so that the graph says no more than which features lie side by side."""

import operator

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

_EMPTY = {torch.ops.aten.new_empty.default, torch.ops.aten.empty.memory_format}


def join_assigned_parts(exported: ExportedProgram) -> ExportedProgram:
    """The same program without such tensors; itself where it has none."""
    if not any(node.target in _EMPTY for node in exported.graph.nodes):
        return exported
    functional = exported.run_decompositions({})
    module = functional.graph_module
    for node in list(module.graph.nodes):
        if _is_assignment(node) and not any(_is_assignment(user) for user in node.users):
            _join(module, node)
    module.graph.eliminate_dead_code()
    module.recompile()
    return functional


def _is_assignment(node: Node) -> bool:
    return node.target is torch.ops.aten.slice_scatter.default


def _join(module: GraphModule, last: Node) -> None:
    """Where the parts that were assigned up to this node make up all of a tensor that began empty."""
    dim, parts, node = _dimension(last), [], last
    while _is_assignment(node):
        base, source, start, end, step = _operands(node)
        if _dimension(node) != dim or step != 1:
            return
        parts.append((start, end, source))
        node = base
    parts.sort(key=operator.itemgetter(0))
    size = last.meta["val"].shape[dim]
    edges = [0, *(end for _, end, _ in parts)]
    if node.target not in _EMPTY or edges[-1] != size or edges[:-1] != [start for start, _, _ in parts]:
        return
    with module.graph.inserting_before(last):
        joined = module.graph.call_function(torch.ops.aten.cat.default, ([source for *_, source in parts], dim))
    joined.meta = dict(last.meta)
    last.replace_all_uses_with(joined)


def _dimension(node: Node) -> int:
    """Along which dimension a part is assigned, counted from the front."""
    return (node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)) % node.meta["val"].dim()


def _operands(node: Node) -> tuple[Node, Node, int, int, int]:
    """What is assigned to, what is assigned, and where."""
    given = dict(zip(("dim", "start", "end", "step"), node.args[2:], strict=False)) | node.kwargs
    size = node.meta["val"].shape[_dimension(node)]
    start, end = given.get("start") or 0, given.get("end")
    end = size if end is None else min(end, size)
    return node.args[0], _copied(node.args[1]), start % size if start < 0 else start, end, given.get("step", 1)


def _copied(source: Node) -> Node:
    """What a copy into a tensor of the same shape and type is of."""
    if source.target is not torch.ops.aten.copy.default:
        return source
    to, value = source.args[0].meta["val"], source.args[1].meta["val"]
    return source.args[1] if (to.shape, to.dtype) == (value.shape, value.dtype) else source
