# SPDX-License-Identifier: Apache-2.0
"""Tensors of a checkpoint that the model has no place for: left out with a warning, or refused."""

import math
import re
from collections.abc import Collection, Mapping

from torch.nn import Module
from transformers import PreTrainedModel

from mebp.errors import Error
from mebp.exporter.checkpoint import StoredTensor
from mebp.exporter.weights import MERGE
from mebp.tensor_names import PEFT_PREFIX, spellings
from mebp.words import counted, say

# What a model computes itself: older versions stored these, too.
_TABLE = re.compile(r"(^|\.)((original_)?inv_freq|(cos|sin)_cached|position_ids|token_type_ids)$")
_MASK = re.compile(r"(^|\.)(attn|attention|self_attention)\.((masked_)?bias|causal_mask)$")
_ADAPTER = re.compile(r"\.(lora_\w+|ia3_\w+|oft_\w+|hada_\w+|base_layer|modules_to_save|original_module)(\.|$)")
_MOST_GROUPS, _LONGEST_NAME = 8, 80


def check_left_over(
    model: PreTrainedModel, checkpoint: Mapping[str, StoredTensor], pieces: Mapping[str, Collection[str]], name: str
) -> None:
    """Names what nothing takes in one warning; raises Error where that would change what the modules present compute:
    a bias beside a weight that is read, or anything else within a layer. `pieces` are parameters in parts."""
    present = {path: module for path, module in model.named_modules() if path}
    of_class = model._keys_to_ignore_on_load_unexpected or ()  # by transformers, whatever the file says
    ignored = [re.compile(of_transformers) for of_transformers in of_class]
    left: list[tuple[str, str]] = []  # a tensor's name, and the innermost module present that it lies in
    for stored in _untaken(model, checkpoint, pieces):
        spelled, inner = _innermost(stored.removeprefix(PEFT_PREFIX), model.base_model_prefix, present)
        if not _is_used(inner, present) or any(pattern.search(stored) for pattern in ignored):
            left.append((spelled, inner))
        else:
            raise Error(f"{name}: the checkpoint has '{stored}', {_advice(stored)}")
    if left:
        tensors = f"{counted(len(left), 'tensor')} of the checkpoint that the model has no place for"
        say(f"warning: {name}: export leaves out {tensors}: {_grouped(left)}", error=True)


def _untaken(
    model: PreTrainedModel, checkpoint: Mapping[str, StoredTensor], pieces: Mapping[str, Collection[str]]
) -> list[str]:
    own = {*model.state_dict(), *(name for name, _ in model.named_buffers())}
    taken = {spelling for name in own for spelling in spellings(name, model.base_model_prefix)}
    taken.update(piece for each in pieces.values() for piece in each)
    return [name for name, tensor in checkpoint.items() if name not in taken and not _is_computed(name, tensor)]


def _is_computed(name: str, tensor: StoredTensor) -> bool:
    is_mask = len(tensor.shape) == 4 or math.prod(tensor.shape) == 1
    return bool(_TABLE.search(name) or (is_mask and _MASK.search(name)))


def _innermost(stored: str, prefix: str, present: Collection[str]) -> tuple[str, str]:
    """The spelling of a tensor's name that lies deepest in the model, and the module that it lies in ("": none)."""
    found = [(spelled, _module_of(spelled, present)) for spelled in spellings(stored, prefix)]
    # With the base model's prefix, every name lies in the base model.
    deep = [each for each in found if each[1] and (each[0] == stored or each[1] != prefix)]
    return max(deep, key=lambda each: each[1].count("."), default=(stored, ""))


def _module_of(name: str, present: Collection[str]) -> str:
    while name and name not in present:
        name = name.rpartition(".")[0]
    return name


def _is_used(module: str, present: Mapping[str, Module]) -> bool:
    """Whether it has parameters itself, or lies in a layer of a list of them."""
    if not module:
        return False
    parts = module.split(".")
    return any(part.isdigit() for part in parts) or any(True for _ in present[module].parameters(recurse=False))


def _advice(stored: str) -> str:
    if _ADAPTER.search(stored):
        return f"part of an adapter; {MERGE}"
    return "which the model in its config.json would ignore; use the config.json that belongs to the weights"


def _grouped(left: list[tuple[str, str]]) -> str:
    """By what stands behind the module present: "vision_tower.*: 436, model.layers.2-31.*: 270"."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name, module in left:
        start = f"{module}." if module else ""
        part = name.removeprefix(start).partition(".")[0]
        groups.setdefault((start, "" if part.isdecimal() else part), []).append((name, part))
    shown = [_shown(start, names) for (start, _), names in list(groups.items())[:_MOST_GROUPS]]
    more = [f"{len(groups) - _MOST_GROUPS} more groups"] if len(groups) > _MOST_GROUPS else []
    return ", ".join(shown + more)


def _shown(start: str, names: list[tuple[str, str]]) -> str:
    """One group, of names and what stands behind `start` in them: one word, or numbers of layers."""
    if len(names) == 1:
        return _in_one_line(names[0][0])
    parts = sorted({part for _, part in names}, key=lambda part: (len(part), part))
    span = parts[0] if len(parts) == 1 else f"{parts[0]}-{parts[-1]}"
    return f"{_in_one_line(start + span)}.*: {len(names):,}"


def _in_one_line(name: str) -> str:
    return name.encode("unicode_escape").decode()[:_LONGEST_NAME]
