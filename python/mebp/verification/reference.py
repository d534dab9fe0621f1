# SPDX-License-Identifier: Apache-2.0
"""The independent reference: transformers and PEFT, in true float64 or as torch is in float32 or bfloat16.

transformers rounds to float32 inside a float64 model: norms and softmaxes are computed in float32, and the loss casts
its logits. Here nothing that is float64 becomes float32 (KeepFloat64), so that float64 means it. Rotary angles stay the
float32 products that every model was trained with: they are constants of the model, like its weights. Falcon's biases
by position are the products that its formula has, not rounded to bfloat16. The float32 and bfloat16 models are as
transformers has them, but for the loss and these biases.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from unittest.mock import patch

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from peft.utils import transformers_weight_conversion
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D
from transformers.utils import ModelOutput

from mebp.arrays import IGNORED_LABEL
from mebp.errors import Error
from mebp.tasks import CAUSAL, CLASSIFY, task_of
from mebp.verification.remote_adapters import add_remote_adapters

_LARGEST = torch.finfo(torch.float32).max


class Reference:
    """A transformers model that has taken on a bundle's dequantised weights, and its adapter where it has one."""

    def __init__(
        self,
        model: PreTrainedModel,
        weights: Mapping[str, np.ndarray],
        trainables: Mapping[str, np.ndarray],
        alpha: float,
        dtype: torch.dtype = torch.float64,
        attention: str | None = None,
        adapter_dtype: torch.dtype | None = None,
        factors: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
        parameters: Mapping[str, str] | None = None,
        router_loss: float = 0.0,
        tokens: Mapping[str, list[int]] | None = None,
    ) -> None:
        """`weights` as session.base_weights(), `trainables` as session.trainables(); `model` itself is changed.

        attention: of transformers; None for sdpa where it computes all that the model's attention has.
        factors: of adapters between a frozen A and B, as mebp.remote_adapters.factors_of has them; else None.
        parameters: of what PEFT adapts by target_parameters, as mebp.expert_adapters.adapted_parameters has them.
        tokens: whose rows are trained, by modules, as mebp.verification.inputs.token_indices has them.
        router_loss: how much the loss has of the routers' (transformers' aux_loss).
        adapter_dtype: None for the model's own; PEFT keeps adapters of bfloat16 models in float32 by default.
        Raises mebp.Error where the weights are not the model's.
        """
        base = model.eval()
        for parameter in base.parameters():  # not the rotary frequencies, which are buffers and float32 in every model
            parameter.data = parameter.data.to(dtype)
        base.set_attn_implementation(attention or _attention_of(base))
        if base._can_set_experts_implementation():
            base.set_experts_implementation("eager")  # others multiply in types of their own
        base.requires_grad_(False)
        load_weights(base, weights)
        own = dict(base.named_parameters(remove_duplicate=False))
        value_head = {
            name: torch.nn.Parameter(torch.from_numpy(values).to(adapter_dtype or dtype))
            for name, values in trainables.items()
            if name.startswith("value_head.")
        }
        trainables = {name: values for name, values in trainables.items() if name not in value_head}
        whole = {name: values for name, values in trainables.items() if name in own}  # a classifier's beside adapters
        self._task = task_of(base)
        self._router_loss = router_loss
        if trainables.keys() <= own.keys():
            self.model = base
            self._parameters = {name: own[name].requires_grad_() for name in trainables}
        elif factors:
            self.model = base
            self._parameters = add_remote_adapters(base, factors, trainables, adapter_dtype or dtype)
        else:
            adapters = {name: values for name, values in trainables.items() if name not in whole}
            self.model = add_adapter(base, adapters, alpha, adapter_dtype or dtype, parameters or {}, tokens)
            self._parameters = {
                name.replace(".default.", ".").removesuffix(".default"): parameter
                for name, parameter in self.model.named_parameters()
                if parameter.requires_grad
            }
            self._parameters |= {name: own[name].requires_grad_() for name in whole}
        self.set_trainables(trainables)
        self._parameters |= value_head

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """The trainable parameters by PEFT key, or by the model's own name where they are the model's."""
        return self._parameters

    def set_trainables(self, values: Mapping[str, np.ndarray]) -> None:
        """Overwrites all trainables; the key sets must be equal."""
        parameters = self.parameters()
        if differing := sorted(parameters.keys() ^ values.keys()):
            raise Error(f"{differing[0]}: PEFT adapts other layers of the reference than the bundle does")
        with torch.no_grad():
            for key, parameter in parameters.items():
                parameter.copy_(torch.from_numpy(np.asarray(values[key])).reshape(parameter.shape))
        self._shapes = {key: np.shape(value) for key, value in values.items()}  # a matrix of what has more axes

    def logits(self, input_ids: np.ndarray) -> np.ndarray:
        """[batch, sequence, vocabulary] in the model's type; a classifier's are [batch, classes]."""
        with torch.no_grad():
            return self._run(input_ids).logits.numpy()

    def logits_and_values(self, input_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[batch, sequence, vocabulary] and, of a value head, [batch, sequence]."""
        found = self.model(input_ids=input_ids, use_cache=False, output_hidden_states=True)
        weight, bias = (self._parameters[f"value_head.{name}"] for name in ("weight", "bias"))
        return found.logits, (found.hidden_states[-1].to(weight.dtype) @ weight.T + bias)[..., 0]

    def loss(self, input_ids: np.ndarray, labels: np.ndarray) -> torch.Tensor:
        """The mean over the labels that count, shifted as in transformers, and an encoder's not; of samples' classes
        those of first tokens do. A routers' loss is of all rows."""
        found = self._run(input_ids, **({"output_router_logits": True} if self._router_loss else {}))
        logits = found.logits
        targets = torch.from_numpy(np.asarray(labels, np.int64))
        if self._task != CAUSAL:
            own = targets[:, 0] if self._task == CLASSIFY else targets.reshape(-1)
            rows = logits.reshape(-1, logits.shape[-1]).double()
            return torch.nn.functional.cross_entropy(rows, own, ignore_index=IGNORED_LABEL)
        targets = targets[:, 1:].reshape(-1)
        # Always on float64 logits: torch's float32 log-softmax over a large vocabulary is 1e-5 off on real text, which
        # would hide what the model itself loses.
        rows = logits[:, :-1].reshape(-1, logits.shape[-1]).double()
        loss = torch.nn.functional.cross_entropy(rows, targets, ignore_index=IGNORED_LABEL)
        return loss + self._router_loss * found.aux_loss.double() if self._router_loss else loss

    def _run(self, input_ids: np.ndarray, **options: bool) -> ModelOutput:
        if self._task == CAUSAL:
            options["use_cache"] = False
        with KeepFloat64():
            return self.model(input_ids=torch.from_numpy(np.asarray(input_ids, np.int64)), **options)

    def loss_and_gradients(self, input_ids: np.ndarray, labels: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        """The loss and its gradient by PEFT key; bfloat16 ones as float32."""
        return self.gradients_of(lambda reference: reference.loss(input_ids, labels))

    def gradients_of(self, loss: Callable[["Reference"], torch.Tensor]) -> tuple[float, dict[str, np.ndarray]]:
        """Likewise of any other loss, a function of this."""
        for parameter in self.parameters().values():
            parameter.grad = torch.zeros_like(parameter)  # which what the loss does not depend on keeps
        value = loss(self)
        value.backward()
        return value.item(), {
            key: _array(parameter.grad).reshape(self._shapes.get(key, parameter.shape))
            for key, parameter in self.parameters().items()
        }


def _attention_of(model: PreTrainedModel) -> str:
    """transformers' formula where sdpa would leave something out."""
    config = model.config
    leaves_out = getattr(config, "attn_logit_softcapping", None) or not getattr(model, "_supports_sdpa", True)
    return "eager" if leaves_out else "sdpa"


def load_weights(model: PreTrainedModel, weights: Mapping[str, np.ndarray]) -> None:
    """Overwrites all of the model's parameters; a tied one may come under either name, or under both as one array.
    Those of experts [experts, out, in] come as one matrix, their biases [experts, out] as one vector, and axes of size
    1 may be there or not."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    buffers = dict(model.named_buffers())
    written: dict[int, np.ndarray] = {}
    advice = "give the exported model with --reference"
    with torch.no_grad():
        for name, values in weights.items():
            if name not in parameters and name not in buffers:
                raise Error(f"{name}: in the bundle but not in the reference; {advice}")
            parameter = parameters[name] if name in parameters else buffers[name]
            if _long(values.shape) not in (_long(parameter.shape), _as_stored(name, parameter.shape)):
                shapes = f"{list(values.shape)} in the bundle, {list(parameter.shape)} in the reference"
                raise Error(f"{name}: {shapes}; {advice}")
            if written.setdefault(id(parameter), values) is not values:
                raise Error(f"{name}: tied to another weight in the reference, not in the bundle; {advice}")
            parameter.copy_(torch.from_numpy(values).reshape(parameter.shape))
    missing = [name for name, parameter in parameters.items() if id(parameter) not in written]
    if missing:
        raise Error(f"{missing[0]}: in the reference but not in the bundle; {advice}")


def _as_stored(name: str, shape: torch.Size) -> tuple[int, ...]:
    sizes = tuple(shape)
    if len(sizes) == 3:
        return _long((sizes[0] * sizes[1], sizes[2]))
    if len(sizes) == 2 and name.endswith("bias"):
        return (sizes[0] * sizes[1],)
    return _long(sizes)


def _long(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _array(values: torch.Tensor) -> np.ndarray:
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy().copy()


def add_adapter(
    model: torch.nn.Module,
    trainables: Mapping[str, np.ndarray],
    alpha: float,
    dtype: torch.dtype,
    parameters: Mapping[str, str],
    tokens: Mapping[str, list[int]] | None = None,
) -> torch.nn.Module:
    """PEFT's LoRA on exactly the modules that the trainables' keys name, and on these {key: parameter}, and beside it
    the rows of `tokens` {module: ids}."""
    suffix = ".lora_A.weight"
    prefix = "base_model.model."
    keys = [key for key in trainables if key.endswith(suffix)]
    layers = [key[len(prefix) : -len(suffix)] for key in keys if key not in parameters]
    own = dict(model.named_parameters())

    def rank_of(key: str) -> int:
        adapted = own[parameters[key]] if key in parameters else None
        return len(trainables[key]) // (len(adapted) if adapted is not None and adapted.dim() == 3 else 1)

    (rank,) = {rank_of(key) for key in keys}
    transposed = any(isinstance(model.get_submodule(name), Conv1D) for name in layers)
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=0.0,
        target_modules=layers,
        target_parameters=sorted({parameters[key] for key in keys if key in parameters}) or None,
        trainable_token_indices=dict(tokens) if tokens else None,
        fan_in_fan_out=transposed,
        task_type="CAUSAL_LM" if task_of(model) == CAUSAL else None,  # a classifier's head is trained as itself here
    )
    # PEFT takes the dense layers of a model with experts for these, which have other names since transformers 5.
    with patch.object(transformers_weight_conversion, "_convert_peft_config_moe", lambda *_: None):
        adapted = get_peft_model(model, config, autocast_adapter_dtype=False)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name or "trainable_tokens_" in name:
            parameter.data = parameter.data.to(dtype)
    return adapted.eval()


class KeepFloat64(TorchFunctionMode):
    """While it is active, what would make float32 of float64 leaves float64: `x.float()`, `x.to(torch.float32)`,
    `softmax(x, dtype=torch.float32)`, and `torch.full` of a number that float32 has not, as XGLM's least score.
    `x.bfloat16()`, which Falcon has for its biases by position, is x."""

    def __torch_function__(
        self, function: Callable, kinds: object, arguments: tuple = (), named: dict | None = None
    ) -> object:
        named = named or {}
        if function is torch.Tensor.bfloat16:
            return arguments[0]
        if function is torch.full:
            value = arguments[1] if len(arguments) > 1 else named.get("fill_value")
            if isinstance(value, float) and _LARGEST < abs(value) < math.inf:
                named = {"dtype": torch.float64, **named}
        if any(isinstance(each, torch.Tensor) and each.dtype == torch.float64 for each in arguments):
            if function is torch.Tensor.float:
                return arguments[0]
            arguments = tuple(torch.float64 if each is torch.float32 else each for each in arguments)
            named = {name: torch.float64 if each is torch.float32 else each for name, each in named.items()}
        return function(*arguments, **named)
