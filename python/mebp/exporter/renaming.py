# SPDX-License-Identifier: Apache-2.0
"""Tensors that a checkpoint has under other names than the model: those of an older transformers, or of the hub."""

from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightRenaming

from mebp.exporter.checkpoint import StoredTensor


def rename(checkpoint: dict[str, StoredTensor], model: PreTrainedModel) -> dict[str, StoredTensor]:
    """The checkpoint by the names that transformers loads it under. What transformers would have to compute, such as
    tensors that it joins, keeps its name."""
    renamings = [each for each in get_model_conversion_mapping(model) if isinstance(each, WeightRenaming)]
    known = model.state_dict().keys()
    found = {}
    for name, tensor in checkpoint.items():
        renamed = name
        for renaming in renamings:
            renamed, _ = renaming.rename_source_key(renamed)
        found[renamed if renamed in known and renamed not in checkpoint else name] = tensor
    return found
