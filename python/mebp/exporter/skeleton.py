# SPDX-License-Identifier: Apache-2.0
"""A model without its weights: parameters on the meta device, position tables and the like real."""

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from mebp.errors import Error, reason
from mebp.exporter import attention

# These change their frequencies beyond a length that no export goes beyond (lengths.py).
_LENGTH_DEPENDENT_ROPE = ("longrope", "dynamic")


def build_skeleton(config: PreTrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """The causal language model of `config`; raises Error where transformers has none."""
    config.use_cache = False
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention.NAME)
    except (ValueError, TypeError, KeyError, AttributeError, ImportError) as error:
        raise Error(
            f"{config.model_type}: transformers makes no causal language model of it: {reason(error)}"
        ) from error
    model.eval()
    for module in model.modules():
        _fill_buffers(model, module)
        if getattr(module, "rope_type", None) in _LENGTH_DEPENDENT_ROPE:
            module.rope_type = "default"
    return model


def aliases(model: PreTrainedModel) -> dict[str, list[str]]:
    """For each parameter name, all names of that parameter (tied embeddings have two), its own first."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {name: [name, *(n for n in group if n != name)] for group in names.values() for name in group}


def _fill_buffers(model: PreTrainedModel, module: torch.nn.Module) -> None:
    buffers = dict(module.named_buffers(recurse=False))
    if not buffers:
        return
    for name, buffer in buffers.items():
        real = torch.empty_like(buffer, device="cpu")
        module._buffers[name] = real.fill_(float("nan")) if real.is_floating_point() else real
    model._init_weights(module)
    for name, buffer in module.named_buffers(recurse=False):
        if buffer.is_floating_point() and not buffer.isfinite().all():
            raise Error(f"{type(module).__name__}.{name}: transformers does not say its value; it cannot be exported")
