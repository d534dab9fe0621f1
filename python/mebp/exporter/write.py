# SPDX-License-Identifier: Apache-2.0
"""The export itself: source, skeleton, graph, weights, tokenizer, in this order."""

import json
from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir
import torch
from transformers import PreTrainedConfig, PreTrainedModel

from mebp.element_types import STORED_TYPES
from mebp.exporter.checkpoint import StoredTensor, read_checkpoint, same_bytes
from mebp.exporter.graph import trace
from mebp.exporter.lengths import longest_sequence
from mebp.exporter.output import Stage
from mebp.exporter.skeleton import aliases, build_skeleton
from mebp.exporter.source import Source, resolve
from mebp.exporter.tokenizer import copy_tokenizer
from mebp.exporter.weights import locate, place, refer, refer_to_nothing

_TORCH_TYPES = {label: getattr(torch, each.torch) for label, each in STORED_TYPES.items()}


def write(
    model: str | Path | PreTrainedModel,
    stage: Stage,
    seq_len: int,
    batch: int,
    shape_only: bool,
    say: Callable[[str], None],
) -> None:
    """Puts the ONNX file, the weights and the tokenizer of `model` into the stage."""
    source = resolve(model, stage.scratch, shape_only)
    longest = longest_sequence(source.config, source.name, seq_len)
    checkpoint = {} if shape_only else read_checkpoint(source.folder)
    skeleton = _build(source.config, checkpoint)
    names = aliases(skeleton)
    say(f"tracing {type(skeleton).__name__} for {batch} x {seq_len} tokens")
    graph = trace(skeleton, batch, seq_len)
    # Buffers are real here, and come from the checkpoint only where it has them.
    stored = {n: tuple(t.shape) for n, t in skeleton.state_dict().items() if t.is_meta or n in checkpoint}
    parameters = {name: stored[name] for name in graph.graph.initializers if name in stored}
    if shape_only:
        refer_to_nothing(graph.graph, parameters)
        graph.metadata_props["mebp.shape_only"] = "1"
    else:
        located = locate(parameters, names, skeleton.base_model_prefix, checkpoint, source.folder)
        refer(graph.graph, located)
        files = sorted({tensor.file for tensor in located.values()})
        size = sum(file.stat().st_size for file in files) / 1e6
        say(f"placing {', '.join(file.name for file in files)} beside the graph, {size:,.1f} MB of weights")
        place(files, stage.folder)
    tied = {name: names[name][1] for name in parameters if len(names.get(name, ())) > 1}
    if tied:
        graph.metadata_props["mebp.tied"] = json.dumps(tied)
    graph.metadata_props.update(_notes(source, seq_len, batch, longest))
    stage.onnx.write_bytes(ir.to_proto(graph).SerializeToString())
    copy_tokenizer(source.folder, stage.folder / "tokenizer", source.name)


def _build(config: PreTrainedConfig, checkpoint: dict[str, StoredTensor]) -> PreTrainedModel:
    dtype = _compute_type(config, checkpoint)
    model = build_skeleton(config, dtype)
    for group in aliases(model).values():
        copies = [checkpoint[name] for name in group if name in checkpoint]
        # As transformers loads it: two tensors that differ are not tied, whatever the config says.
        if len(copies) > 1 and not all(same_bytes(copies[0], copy) for copy in copies[1:]):
            config.tie_word_embeddings = False
            return build_skeleton(config, dtype)
    return model


def _compute_type(config: PreTrainedConfig, checkpoint: dict[str, StoredTensor]) -> torch.dtype:
    """The type that all weights are stored in, else f32."""
    if not checkpoint:
        return config.dtype if config.dtype in _TORCH_TYPES.values() else torch.float32
    stored = {tensor.dtype for tensor in checkpoint.values()} & set(_TORCH_TYPES)
    return _TORCH_TYPES[stored.pop()] if len(stored) == 1 else torch.float32


def _notes(source: Source, seq_len: int, batch: int, longest: int | None) -> dict[str, str]:
    """What the compiler reads beside the graph."""
    notes = {
        "mebp.model": source.origin,
        "mebp.model_type": source.config.model_type,
        "mebp.batch": str(batch),
        "mebp.sequence": str(seq_len),
        "mebp.vocabulary": str(source.config.vocab_size),
    }
    if longest is not None:
        notes["mebp.sequence_limit"] = str(longest)
    return notes
