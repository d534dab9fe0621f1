# SPDX-License-Identifier: Apache-2.0
"""From a model's skeleton to its ONNX graph: input_ids [batch, sequence] -> logits [batch, sequence, vocabulary]."""

import onnx_ir as ir
import torch
from onnx_ir.passes.common import RemoveUnusedNodesPass
from onnxscript.optimizer import fold_constants_ir
from transformers import PreTrainedModel

from mebp.errors import Error, explained
from mebp.exporter.assignment import join_assigned_parts
from mebp.exporter.later import later_advice
from mebp.exporter.masks import plain_masks
from mebp.exporter.recurrences import one_node_each
from mebp.exporter.rotary import computed_tables

_OPSET = 23
_SCOPES = "pkg.torch.onnx.name_scopes"
_SHAPE_ELEMENTS = 16


def trace(model: PreTrainedModel, batch: int, seq_len: int) -> ir.Model:
    """The graph of `model`, its initializers under the parameters' own names and without data; raises Error where
    torch cannot export it."""
    ids = torch.zeros(batch, seq_len, dtype=torch.int64)
    try:
        # Left to torch.onnx, what fails would be tried in other ways, one of which computes the whole model.
        with computed_tables(model), plain_masks(), one_node_each(model):
            exported = join_assigned_parts(torch.export.export(model, (), {"input_ids": ids}, strict=False))
        program = torch.onnx.export(
            exported,
            dynamo=True,
            opset_version=_OPSET,
            # Optimizing would transpose, rename, fold and merge parameters.
            optimize=False,
            output_names=["logits"],
            verbose=False,
        )
    except Error:
        raise
    except Exception as error:
        why = explained(error)
        yet = later_advice(model.config.model_type, "torch", "transformers") or "mebp cannot train this model yet"
        raise Error(f"{type(model).__name__}: torch cannot export it{why}; {yet}") from error
    graph = program.model
    fold_constants_ir(graph, should_fold=_is_shape)
    RemoveUnusedNodesPass()(graph)
    _strip(graph)
    return graph


def _is_shape(node: ir.Node) -> bool:
    """Whether the node only computes a shape or an axis: those vanish, while tables that depend on positions stay
    nodes, since the compiler rebinds the length."""
    return node.op_type != "Range" and all(
        value.dtype == ir.DataType.INT64 and value.const_value is not None and value.const_value.size <= _SHAPE_ELEMENTS
        for value in node.inputs
        if value is not None
    )


def _strip(model: ir.Model) -> None:
    """Drops the exporter's notes but the module scopes, which name the compiler's blocks."""
    model.producer_name, model.producer_version = "mebp", None
    model.metadata_props.clear()
    model.graph.metadata_props.clear()
    model.graph.doc_string = None
    for node in model.graph:
        scopes = node.metadata_props.get(_SCOPES)
        node.metadata_props.clear()
        node.doc_string = None
        if scopes:
            node.metadata_props[_SCOPES] = scopes
        for value in node.outputs:
            value.metadata_props.clear()
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        value.metadata_props.clear()
