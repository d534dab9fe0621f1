# SPDX-License-Identifier: Apache-2.0
"""A model without its weights: parameters that take no memory, position tables and the like real."""

import re
import sys
from collections.abc import Mapping

import torch
import transformers
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.pytorch_utils import Conv1D

from mebp.errors import Error, explained
from mebp.exporter import attention, experts
from mebp.exporter.checkpoint import StoredTensor
from mebp.exporter.config import why
from mebp.exporter.later import later_advice
from mebp.exporter.offline import offline
from mebp.tasks import CAUSAL, TASKS
from mebp.tensor_file import read_stored
from mebp.tensor_names import spellings

_EXPERTS = re.compile(r"Experts$|Mo[eE]$|Mo[eE]Block$|MoELayer$|MoA$")  # what transformers' classes of them are called
_ROUTER = re.compile(r"Router$")
_STREAMS = re.compile(r"AltUp$")  # of Gemma 3n
# These change their frequencies beyond a length that no export goes beyond (lengths.py).
_LENGTH_DEPENDENT_ROPE = ("longrope", "dynamic")


def build_skeleton(config: PreTrainedConfig, task: str = CAUSAL) -> PreTrainedModel:
    """The causal language model of `config`, or its encoder for another task, in f32; raises Error where transformers
    has none."""
    config.use_cache = False
    try:
        model = _on_meta(config, task)
    except Exception as error:
        because = why(error, config.to_diff_dict(), lambda fields: _on_meta(type(config)(**fields), task))
        raise Error(f"{config.model_type}: transformers cannot build the model{because}") from error
    model.eval()
    _refuse_experts(model)
    _refuse_streams(model)
    try:
        for module in model.modules():
            _fill_buffers(model, module)
            if getattr(module, "rope_type", None) in _LENGTH_DEPENDENT_ROPE:
                module.rope_type = "default"
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        kind = type(model).__name__
        raise Error(f"{kind}: transformers does not initialise its buffers by themselves{explained(error)}") from error
    _leave_meta(model)
    return model


class _Numbers(TorchFunctionMode):
    """Keeps single numbers that code writes down real, as xIELU's beta: nothing else says their value."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.tensor and isinstance(args[0] if args else None, int | float):
            kwargs = {"device": "cpu", **(kwargs or {})}
        return function(*args, **(kwargs or {}))


def aliases(model: PreTrainedModel) -> dict[str, list[str]]:
    """For each parameter name, all names of that parameter (tied embeddings have two), its own first."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {name: [name, *(n for n in group if n != name)] for group in names.values() for name in group}


def set_numbers(model: PreTrainedModel, checkpoint: Mapping[str, StoredTensor]) -> list[str]:
    """Gives buffers of one number the checkpoint's value, and returns their names: they are constants of the graph."""
    named = []
    for name, buffer in model.named_buffers():
        known = (spelling for spelling in spellings(name, model.base_model_prefix) if spelling in checkpoint)
        stored = next(known, None) if buffer.dim() == 0 and buffer.is_floating_point() else None
        if stored is not None and checkpoint[stored].shape == ():
            buffer.fill_(float(read_stored(stored, checkpoint[stored], "download it again")))
            named.append(name)
    return named


def bare(model: PreTrainedModel) -> list[str]:
    """The matrices that the model's code multiplies with outside of any layer that PEFT can adapt: PhiMoE's router is a
    linear layer that gives more than one tensor, to which PEFT's layers cannot add."""
    layers = (torch.nn.Linear, torch.nn.Embedding, Conv1D)
    return [
        f"{prefix}.{name}"
        for prefix, module in model.named_modules()
        if not isinstance(module, layers) or _ROUTER.search(type(module).__name__)
        for name, parameter in module.named_parameters(recurse=False)
        if parameter.dim() > 1
    ]


def _on_meta(config: PreTrainedConfig, task: str) -> PreTrainedModel:
    with torch.device("meta"), _Numbers(), offline():
        return _make(config) if task == CAUSAL else _make_encoder(config, task)


def _make(config: PreTrainedConfig) -> PreTrainedModel:
    """With this project's attention, or with transformers' formula where a class has attentions of its own alone: that
    would be handed a mask which it does not read."""
    kind = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    shared = hasattr(sys.modules[kind.__module__], "ALL_ATTENTION_FUNCTIONS")
    return AutoModelForCausalLM.from_config(
        config,
        dtype=torch.float32,
        attn_implementation=attention.NAME if shared else "eager",
        experts_implementation=experts.NAME,
        trust_remote_code=False,
    )


def _make_encoder(config: PreTrainedConfig, task: str) -> PreTrainedModel:
    return getattr(transformers, TASKS[task].auto).from_config(
        config,
        dtype=torch.float32,
        attn_implementation=attention.ENCODER,
        experts_implementation="eager",
        trust_remote_code=False,
    )


def _refuse_experts(model: PreTrainedModel) -> None:
    for name, module in model.named_modules():
        if _EXPERTS.search(type(module).__name__) and not any(map(experts.are_replaced, module.modules())):
            advice = "mebp cannot train this model yet: transformers computes it in a way of its own"
            if later := later_advice(model.config.model_type, "transformers"):
                advice = f"this transformers computes it in a way of its own; {later}"
            raise Error(f"{type(model).__name__}: '{name}' is a mixture of experts; {advice}")


def _refuse_streams(model: PreTrainedModel) -> None:
    for name, module in model.named_modules():
        if _STREAMS.search(type(module).__name__):
            raise Error(
                f"{type(model).__name__}: '{name}' mixes several streams that go from layer to layer; mebp cannot "
                "train this model yet"
            )


def _fill_buffers(model: PreTrainedModel, module: torch.nn.Module) -> None:
    buffers = {name: buffer for name, buffer in module.named_buffers(recurse=False) if buffer.is_meta}
    if not buffers:
        return
    for name, buffer in buffers.items():
        real = torch.empty_like(buffer, device="cpu")
        module._buffers[name] = real.fill_(float("nan")) if real.is_floating_point() else real
    model._init_weights(module)
    for name, buffer in module.named_buffers(recurse=False):
        if buffer.is_floating_point() and not buffer.isfinite().all():
            raise Error(f"{type(module).__name__}.{name}: transformers does not say its value; it cannot be exported")


def _leave_meta(model: PreTrainedModel) -> None:
    """Makes each parameter one number that is seen in all places. Beside buffers that are real, a model on meta would
    mix devices wherever its code makes a tensor."""
    made: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor) and value.is_meta:
                raise Error(
                    f"{type(module).__name__}.{name}: transformers does not say its value; it cannot be exported"
                )
        for name, parameter in module._parameters.items():
            if parameter is not None:
                number = torch.zeros((), dtype=parameter.dtype).expand(parameter.shape)
                made.setdefault(id(parameter), torch.nn.Parameter(number, requires_grad=False))
                module._parameters[name] = made[id(parameter)]
