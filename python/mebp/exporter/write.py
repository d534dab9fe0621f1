# SPDX-License-Identifier: Apache-2.0
"""The export itself: source, skeleton, graph, weights, tokenizer, in this order."""

import json
from pathlib import Path

import onnx_ir as ir
import torch
from transformers import PreTrainedConfig, PreTrainedModel

from mebp.errors import Error
from mebp.exporter.checkpoint import StoredTensor, read_checkpoint
from mebp.exporter.graph import trace
from mebp.exporter.output import Stage
from mebp.exporter.skeleton import aliases, build_skeleton
from mebp.exporter.source import Source, resolve
from mebp.exporter.tokenizer import copy_tokenizer
from mebp.exporter.weights import locate, place, refer, refer_to_nothing

_TORCH_TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def write(model: str | Path | PreTrainedModel, stage: Stage, seq_len: int, batch: int, shape_only: bool) -> None:
    """Puts the ONNX file, the weights and the tokenizer of `model` into the stage."""
    source = resolve(model, stage.scratch, shape_only)
    _check_length(source, seq_len)
    checkpoint = {} if shape_only else read_checkpoint(source.folder)
    skeleton = build_skeleton(source.config, _compute_type(source.config, checkpoint), seq_len)
    names = aliases(skeleton)
    graph = trace(skeleton, batch, seq_len)
    shapes = {n: tuple(p.shape) for n, p in skeleton.named_parameters(remove_duplicate=False)}
    parameters = {name: shapes[name] for name in graph.graph.initializers if name in shapes}
    if shape_only:
        refer_to_nothing(graph.graph, parameters)
    else:
        located = locate(parameters, names, skeleton.base_model_prefix, checkpoint, source.folder)
        refer(graph.graph, located)
        place(sorted({tensor.file for tensor in located.values()}), stage.folder)
    graph.metadata_props.update(_notes(source, seq_len, batch, shape_only, {n: names[n] for n in parameters}))
    stage.onnx.write_bytes(ir.to_proto(graph).SerializeToString())
    copy_tokenizer(source.folder, stage.folder / "tokenizer")


def _compute_type(config: PreTrainedConfig, checkpoint: dict[str, StoredTensor]) -> torch.dtype:
    """The type that all weights are stored in, else f32."""
    if not checkpoint:
        return config.dtype if config.dtype in _TORCH_TYPES.values() else torch.float32
    stored = {tensor.dtype for tensor in checkpoint.values()}
    return _TORCH_TYPES.get(stored.pop(), torch.float32) if len(stored) == 1 else torch.float32


def _check_length(source: Source, seq_len: int) -> None:
    longest = getattr(source.config, "max_position_embeddings", None)
    if longest and seq_len > longest:
        raise Error(f"--seq-len {seq_len}: {source.name} has positions for {longest} tokens; choose at most that many")


def _notes(source: Source, seq_len: int, batch: int, shape_only: bool, names: dict[str, list[str]]) -> dict[str, str]:
    notes = {
        "mebp.model": source.name,
        "mebp.model_type": source.config.model_type,
        "mebp.batch": str(batch),
        "mebp.sequence": str(seq_len),
        "mebp.vocabulary": str(source.config.vocab_size),
    }
    tied = {name: group[1] for name, group in names.items() if len(group) > 1}
    if tied:
        notes["mebp.tied"] = json.dumps(tied)
    if shape_only:
        notes["mebp.shape_only"] = "1"
    return notes
