# SPDX-License-Identifier: Apache-2.0
"""The export itself: source, skeleton, graph, weights, tokenizer, in this order."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import onnx_ir as ir
from transformers import PreTrainedModel

from mebp.errors import Error
from mebp.exporter import classifier, mlx, mlx_shapes, rounded
from mebp.exporter.alibi import check_alibi
from mebp.exporter.blocks import files_of, with_blocks
from mebp.exporter.checkpoint import StoredTensor, read_checkpoint, same_bytes
from mebp.exporter.encoders import encode_tokens
from mebp.exporter.graph import trace
from mebp.exporter.heads import missing_of_head, write_new
from mebp.exporter.left_over import check_left_over
from mebp.exporter.lengths import longest_sequence
from mebp.exporter.mxfp4 import unpack
from mebp.exporter.new_tokens import NewTokens, token_tables
from mebp.exporter.output import Stage
from mebp.exporter.recurrences import check_recurrences
from mebp.exporter.renaming import find_pieces, rename
from mebp.exporter.skeleton import aliases, bare, build_skeleton, set_numbers
from mebp.exporter.source import Source, resolve
from mebp.exporter.text_parts import TextPart, text_name_of_stored
from mebp.exporter.tokenizer import copy_tokenizer, write_pieces
from mebp.exporter.weights import check_pieces, locate, place, refer, refer_to_nothing, refer_to_pieces
from mebp.gguf.adapter_places import HEAD, adapter_places
from mebp.gguf.blocks import BLOCKS
from mebp.tasks import CAUSAL, CLASSIFY, TASKS
from mebp.tokenizer import ALL_TOKENS

Checkpoint = dict[str, StoredTensor]
Names = dict[str, list[str]]  # of each tensor, all that it is called: tied ones have several
Shapes = dict[str, tuple[int, ...]]


def write(
    model: str | Path | PreTrainedModel,
    stage: Stage,
    seq_len: int,
    batch: int,
    shape_only: bool,
    say: Callable[[str], None],
    task: str = CAUSAL,
    classes: Sequence[str] | None = None,
    train_tokens: Sequence[str] = (),
) -> None:
    """Puts the ONNX file, the weights and the tokenizer of `model` into the stage."""
    _check_task(task, classes, train_tokens)
    source = resolve(model, stage.scratch, shape_only, task)
    is_renamed = bool(classes) and list(classes) != classifier.named_classes(source.config)
    if classes:
        classifier.name_classes(source.config, classes)
    names_of_classes = classifier.class_names(source.config) if TASKS[task].has_classes else []
    trains_all = tuple(train_tokens) == ALL_TOKENS
    if train_tokens and source.part is not None:
        raise Error(f"{source.name}: takes more than text, and --train-tokens is for models of text alone")
    new = NewTokens.of(train_tokens, source) if train_tokens and not trains_all else None
    if new:
        source.config.vocab_size = new.size
    longest = longest_sequence(source.config, source.name, seq_len, task == CAUSAL)
    if note := check_alibi(source.config, source.name):
        say(note)
    stored = {} if shape_only else _text_of(source, _numbers_of(source, stage))
    skeleton, checkpoint = _match(source, task, stored)
    names = aliases(skeleton)
    say(f"tracing {type(skeleton).__name__} for {batch} x {seq_len} tokens")
    graph, parameters = _trace(skeleton, names, checkpoint, task, batch, seq_len)
    if shape_only:
        refer_to_nothing(graph.graph, parameters)
    else:
        checkpoint = unpack(checkpoint, stage.scratch, source.name)
        if TASKS[task].has_classes:
            checkpoint = _complete_head(skeleton, parameters, checkpoint, is_renamed, source.name, stage.scratch, say)
        pieces = find_pieces(checkpoint, skeleton)
        if new:
            say(f"{', '.join(new.texts)}: tokens {new.first} to {new.end - 1}, which begin as the mean of all before")
            pieces |= new.pieces(skeleton, parameters, names, checkpoint, source, stage.scratch)
        prefix = skeleton.base_model_prefix
        located = _refer(graph, parameters, names, checkpoint, pieces, prefix, source.folder)
        files = files_of(located.values())
        check_left_over(skeleton, checkpoint, pieces, source.name)
        size = sum(file.stat().st_size for file in files) / 1e6
        say(f"placing {', '.join(file.name for file in files)} beside the graph, {size:,.1f} MB of weights")
        place(files, stage.folder)
    whole = source.part if source.is_whole else None
    if whole:
        _name_whole(graph.graph, parameters, whole)
    graph.metadata_props.update(_notes_of_source(source, seq_len, batch, longest, shape_only))
    graph.metadata_props.update(_notes_of_parameters(skeleton, parameters, names, whole))
    graph.metadata_props.update(_notes_for_gguf(source, parameters, names, whole))
    if not shape_only:
        graph.metadata_props.update(_notes_of_blocks(located, whole))
    graph.metadata_props.update(_notes_of_task(skeleton, task, names_of_classes))
    graph.metadata_props.update(new.notes if new else {})
    if trains_all:
        graph.metadata_props["mebp.whole"] = json.dumps([name for name in token_tables(skeleton) if name in parameters])
    stage.onnx.write_bytes(_serialise(graph, type(skeleton).__name__))
    copy_tokenizer(source.folder, stage.folder / "tokenizer", source.name)
    if new:
        new.write(stage.folder / "tokenizer")
    if task == CAUSAL:
        write_pieces(stage.folder / "tokenizer", source.name)


def _check_task(task: str, classes: Sequence[str] | None, train_tokens: Sequence[str]) -> None:
    if task not in TASKS:
        raise Error(f"--task is '{task}'; choose {' or '.join(TASKS)}")
    if train_tokens and task != CAUSAL:
        raise Error(f"--train-tokens is for language models, and --task {task} trains another; leave one of them out")
    if classes and not TASKS[task].has_classes:
        raise Error(f"--classes is for models that tell classes apart, and --task {task} does not; leave it out")


def _numbers_of(source: Source, stage: Stage) -> Checkpoint:
    """The checkpoint, with numbers in place of MLX's codes, FP8 and NF4, and MLX's shapes undone."""
    checkpoint = with_blocks(read_checkpoint(source.folder), source.blocks, source.folder / BLOCKS)
    if source.rounded is not None:
        return rounded.unpack(checkpoint, source.rounded, stage.scratch, source.name)
    if source.of_mlx is not None:
        checkpoint = mlx.unpack(checkpoint, source.of_mlx, stage.scratch, source.name)
    return mlx_shapes.as_published(checkpoint, source.config.model_type, stage.scratch)


def _text_of(source: Source, checkpoint: Checkpoint) -> Checkpoint:
    """What the text's class knows of a checkpoint that has more, by its names."""
    if source.part is None:
        return checkpoint
    named = {text_name_of_stored(name): tensor for name, tensor in checkpoint.items()}
    return {name: tensor for name, tensor in named.items() if name is not None}


def _match(source: Source, task: str, checkpoint: Checkpoint) -> tuple[PreTrainedModel, Checkpoint]:
    """The model without its weights, and these by its names for them."""
    skeleton = build_skeleton(source.config, task)
    checkpoint = rename(checkpoint, skeleton)
    if _ties_what_differs(aliases(skeleton), checkpoint):
        # As transformers loads it: two tensors that differ are not tied, whatever the config says.
        source.config.tie_word_embeddings = False
        skeleton = build_skeleton(source.config, task)
    return skeleton, checkpoint


def _trace(
    skeleton: PreTrainedModel, names: Names, checkpoint: Checkpoint, task: str, batch: int, seq_len: int
) -> tuple[ir.Model, Shapes]:
    """The graph, and the shapes of the parameters in it whose values a checkpoint has."""
    if task == CLASSIFY:
        encode_tokens(skeleton, classifier.reader_of(skeleton))
    elif task != CAUSAL:
        encode_tokens(skeleton)
    numbers = set_numbers(skeleton, checkpoint)
    graph = trace(skeleton, batch, seq_len)
    if task == CAUSAL:
        check_recurrences(skeleton, graph)
    # Buffers are real here, and come from the checkpoint only where it has them.
    of_checkpoint = {*names, *checkpoint}.difference(numbers)
    stored = {n: tuple(t.shape) for n, t in skeleton.state_dict().items() if n in of_checkpoint}
    return graph, {name: stored[name] for name in graph.graph.initializers if name in stored}


def _complete_head(
    skeleton: PreTrainedModel,
    parameters: Shapes,
    checkpoint: Checkpoint,
    is_renamed: bool,
    name: str,
    scratch: Path,
    say: Callable[[str], None],
) -> Checkpoint:
    """With new weights for a head that is not there, or tells other classes apart."""
    if is_renamed:
        checkpoint = {name: each for name, each in checkpoint.items() if not classifier.is_of_head(name)}
    fresh = missing_of_head(skeleton, parameters, checkpoint)
    if not fresh:
        return checkpoint
    say(f"{name} has no {', '.join(fresh)}: they begin at random")
    return checkpoint | write_new(skeleton, fresh, scratch)


def _refer(
    graph: ir.Model,
    parameters: Shapes,
    names: Names,
    checkpoint: Checkpoint,
    pieces: Mapping[str, Checkpoint],
    prefix: str,
    folder: Path,
) -> Checkpoint:
    """Lets parameters refer to where their bytes are; returns the tensors there."""
    whole = {name: shape for name, shape in parameters.items() if name not in pieces}
    located = locate(whole, names, prefix, checkpoint, folder)
    refer(graph.graph, located)
    for name in (name for name in parameters if name in pieces):
        check_pieces(name, parameters[name], pieces[name])
        refer_to_pieces(graph.graph, name, pieces[name])
        located.update(pieces[name])
    return located


def _name_whole(graph: ir.Graph, parameters: Shapes, part: TextPart) -> None:
    """Gives parameters the names that the class has for them which config.json names."""
    joined = [output for node in graph for output in node.outputs if output.name in parameters]  # of experts' parts
    for value in (*(graph.initializers[name] for name in parameters if name in graph.initializers), *joined):
        value.name = part.whole_name(value.name)


def _ties_what_differs(names: Names, checkpoint: Checkpoint) -> bool:
    for group in names.values():
        copies = [checkpoint[name] for name in group if name in checkpoint]
        if any(not same_bytes(copies[0], copy) for copy in copies[1:]):
            return True
    return False


def _serialise(graph: ir.Model, kind: str) -> bytes:
    try:
        return ir.to_proto(graph).SerializeToString()
    except Exception as error:
        raise Error(f"{kind}: torch exports a graph that ONNX cannot hold; mebp cannot train this model yet") from error


def _notes_of_source(source: Source, seq_len: int, batch: int, longest: int | None, shape_only: bool) -> dict[str, str]:
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
    if source.is_as_file:
        notes["mebp.weights"] = "file"
    if shape_only:
        notes["mebp.shape_only"] = "1"
    return notes


def _notes_of_parameters(
    skeleton: PreTrainedModel, parameters: Shapes, names: Names, part: TextPart | None
) -> dict[str, str]:
    """By the names that the graph has for them."""
    notes, called = {}, part.whole_name if part else str
    if tied := {called(name): called(names[name][1]) for name in parameters if len(names.get(name, ())) > 1}:
        notes["mebp.tied"] = json.dumps(tied)
    if names_of_bare := [called(name) for name in bare(skeleton) if name in parameters]:
        notes["mebp.bare"] = json.dumps(names_of_bare)
    if part:
        notes["mebp.text_part"] = part.module
    return notes


def _notes_for_gguf(source: Source, parameters: Shapes, names: Names, part: TextPart | None) -> dict[str, str]:
    """Where llama.cpp has adapters of the model's layers."""
    config = source.config.to_dict()
    if source.part is not None and source.part.plain is not None:  # one of these is no file of llama.cpp's
        config["model_type"] = f"{config['model_type']}_vl"
    places = adapter_places(config, parameters, has_tied_head=len(names.get(f"{HEAD}.weight", ())) > 1)
    if part and "layers" in places:
        places["layers"] = {part.whole_name(name): place for name, place in places["layers"].items()}
    return {"mebp.gguf": json.dumps(places)}


def _notes_of_blocks(located: Checkpoint, part: TextPart | None) -> dict[str, str]:
    called = part.whole_name if part else str
    places = {called(name): tensor.blocks for name, tensor in located.items() if tensor.blocks}
    if not places:
        return {}
    fields = {name: {"type": blocks.dtype, "file": blocks.file.name, "offset": blocks.offset, "bytes": blocks.length}
              for name, blocks in places.items()}  # fmt: skip
    return {"mebp.blocks": json.dumps(fields)}


def _notes_of_task(skeleton: PreTrainedModel, task: str, classes: list[str]) -> dict[str, str]:
    notes = {}
    if task != CAUSAL:
        notes["mebp.task"] = task
    if TASKS[task].has_classes:
        notes["mebp.classes"] = json.dumps(classes)
        notes["mebp.whole"] = json.dumps(classifier.trained_whole(skeleton))
    return notes
