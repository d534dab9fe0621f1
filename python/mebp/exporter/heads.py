# SPDX-License-Identifier: Apache-2.0
"""Heads that a checkpoint lacks: a model that was pretrained on text alone has none to classify with."""

from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from transformers import PreTrainedModel

from mebp.exporter.checkpoint import StoredTensor, read_header
from mebp.exporter.classifier import trained_whole
from mebp.tensor_file import write_tensors
from mebp.tensor_names import spellings

_FILE = "head.safetensors"
_USUAL_DEVIATION = 0.02


def missing_of_head(
    model: PreTrainedModel, parameters: Collection[str], checkpoint: Mapping[str, StoredTensor]
) -> list[str]:
    """Those of the head's `parameters` that no tensor is of: the classifier's, and a pooler's before it."""
    of_head = {*trained_whole(model), *(name for name in parameters if ".pooler." in name)}
    prefix = model.base_model_prefix
    return [
        name
        for name in parameters
        if name in of_head and not any(spelling in checkpoint for spelling in spellings(name, prefix))
    ]


def write_new(model: PreTrainedModel, names: Collection[str], folder: Path) -> dict[str, StoredTensor]:
    """New values of these parameters, as transformers draws them, in a file in `folder`: the same ones each time."""
    generator = torch.Generator().manual_seed(0)
    deviation = getattr(model.config, "initializer_range", None) or _USUAL_DEVIATION
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    values = {}
    for name in names:
        if len(shapes[name]) > 1:
            values[name] = deviation * torch.randn(shapes[name], generator=generator)
        else:
            values[name] = torch.zeros(shapes[name]) if name.endswith("bias") else torch.ones(shapes[name])
    each = (values[name].numpy() for name in values)
    write_tensors(folder / _FILE, {name: tuple(shapes[name]) for name in values}, each, "f32")
    return read_header(folder / _FILE)
