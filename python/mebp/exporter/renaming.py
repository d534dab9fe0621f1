# SPDX-License-Identifier: Apache-2.0
"""Tensors that a checkpoint has under other names than the model, or in pieces: those of an older transformers, or of
the hub."""

from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import Concatenate, MergeModulelist, WeightConverter, WeightRenaming

from mebp.exporter.checkpoint import StoredTensor


def rename(checkpoint: dict[str, StoredTensor], model: PreTrainedModel) -> dict[str, StoredTensor]:
    """The checkpoint by the names that transformers loads it under. What transformers would have to compute, such as
    tensors that it joins, keeps its name."""
    names, known = _loaded_names(checkpoint, model), model.state_dict().keys()
    return {new if new in known and new not in checkpoint else name: checkpoint[name] for name, new in names.items()}


def find_pieces(checkpoint: dict[str, StoredTensor], model: PreTrainedModel) -> dict[str, dict[str, StoredTensor]]:
    """For each parameter that the checkpoint has in parts, as one [experts, out, in] expert by expert: its pieces,
    whose rows are its own one after the other, by the names that the checkpoint has them under."""
    old = {new: name for name, new in _loaded_names(checkpoint, model).items()}
    found = {}
    for joining in get_model_conversion_mapping(model):
        if not isinstance(joining, WeightConverter) or not (_joins_rows(joining) or _joins_parts(joining)):
            continue
        target = joining.target_patterns[0]
        for name, parameter in model.named_parameters():
            if parameter.dim() != 3 or not name.endswith(target) or name in checkpoint:
                continue
            count = 1 if _joins_parts(joining) else parameter.shape[0]
            pieces = [
                old.get(name.removesuffix(target) + source.replace("*", str(expert)))
                for expert in range(count)
                for source in joining.source_patterns
            ]
            if None not in pieces:
                found[name] = {piece: checkpoint[piece] for piece in pieces}
    return found


def _loaded_names(checkpoint: dict[str, StoredTensor], model: PreTrainedModel) -> dict[str, str]:
    """For each name in the checkpoint the one that transformers loads it under."""
    renamings = [each for each in get_model_conversion_mapping(model) if isinstance(each, WeightRenaming)]
    names = {}
    for name in checkpoint:
        names[name] = name
        for renaming in renamings:
            names[name], _ = renaming.rename_source_key(names[name])
    return names


def _joins_rows(converter: WeightConverter) -> bool:
    """Whether it stacks experts, and beforehand puts the rows of several weights of each below each other."""
    stack, *below = converter.operations
    return (
        isinstance(stack, MergeModulelist)
        and stack.dim == 0
        and len(converter.target_patterns) == 1
        and (len(converter.source_patterns) == 1 if not below else len(below) == 1)
        and all(isinstance(each, Concatenate) and each.dim == 1 for each in below)
    )


def _joins_parts(converter: WeightConverter) -> bool:
    """Whether it puts the rows of several weights below each other, as those of a convolution are."""
    (first, *others) = converter.operations
    return isinstance(first, Concatenate) and first.dim == 0 and not others and len(converter.target_patterns) == 1
