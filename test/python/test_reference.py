# SPDX-License-Identifier: Apache-2.0
"""The reference by itself: float64 means float64, and torch's float32 lies close to it."""

import copy
import re
from unittest.mock import patch

import numpy as np
import pytest
import torch

import mebp
from mebp.verification.comparison import relative_error
from mebp.verification.reference import Reference
from support import models

TARGETS = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "c_attn", "c_proj", "c_fc"}
ALPHA = 16.0


def random_adapter(model: torch.nn.Module, rank: int = 4) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    adapter = {}
    for name, module in model.named_modules():
        if name.rsplit(".", 1)[-1] in TARGETS:
            rows, columns = module.weight.shape
            outputs, inputs = (rows, columns) if isinstance(module, torch.nn.Linear) else (columns, rows)
            for part, shape in (("A", (rank, inputs)), ("B", (outputs, rank))):
                values = generator.normal(0, 0.1, shape).astype(np.float32)
                adapter[f"base_model.model.{name}.lora_{part}.weight"] = values
    return adapter


@pytest.fixture(params=["llama", "qwen2", "gpt2", "gemma3_text", "vaultgemma", "olmo", "cohere"])
def case(request):
    model = models.build(request.param).float().eval()
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    generator = np.random.default_rng(1)
    ids = generator.integers(0, model.config.vocab_size, (2, 24))
    labels = ids.copy()
    labels[0, 3:7] = -100
    return model, weights, random_adapter(model), ids, labels


def test_float64_gradients_are_the_slope_of_the_loss(case):
    model, weights, adapter, ids, labels = case
    reference = Reference(model, weights, adapter, ALPHA)
    _, gradients = reference.loss_and_gradients(ids, labels)
    generator = np.random.default_rng(2)
    direction = {key: generator.normal(size=values.shape) for key, values in adapter.items()}
    step = 1e-6
    losses = []
    for sign in (1, -1):
        reference.set_trainables({key: adapter[key] + sign * step * direction[key] for key in adapter})
        losses.append(reference.loss(ids, labels).item())
    slope = sum(float((gradients[key] * direction[key]).sum()) for key in adapter)
    # Anything left in float32 would show here: rounding of 1e-8 over a step of 1e-6.
    assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(slope, rel=1e-7)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_rotary_frequencies_stay_what_models_are_trained_with(case, dtype):
    model, weights, adapter, _, _ = case
    made = Reference(model, weights, adapter, ALPHA, dtype).model
    frequencies = [buffer for name, buffer in made.named_buffers() if "inv_freq" in name]
    assert all(buffer.dtype == torch.float32 for buffer in frequencies)
    assert bool(frequencies) == (model.config.model_type != "gpt2")


def test_biases_by_position_are_not_rounded():
    """Twelve heads have slopes that bfloat16 has not."""
    model = models.build("falcon_alibi", num_attention_heads=12, num_hidden_layers=1)
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    ids = models.token_ids(model, 1, 24).numpy()
    double = copy.deepcopy(model).double()
    with torch.no_grad():
        rounded = double(torch.from_numpy(ids), use_cache=False).logits.numpy()
    with patch.object(torch.Tensor, "bfloat16", lambda values: values), torch.no_grad():
        exact = double(torch.from_numpy(ids), use_cache=False).logits.numpy()
    found = Reference(model, weights, dict(list(weights.items())[:1]), ALPHA).logits(ids)
    assert relative_error(found, exact) < 1e-7 < 1e-5 < relative_error(rounded, exact)


def test_layers_that_are_not_adapted_are_named(case):
    model, weights, adapter, _, _ = case
    reference = Reference(model, weights, adapter, ALPHA)
    missing = {key: values for key, values in adapter.items() if key != min(adapter)}
    with pytest.raises(mebp.Error, match=f"^{re.escape(min(adapter))}: PEFT adapts other layers"):
        reference.set_trainables(missing)


def test_float32_lies_close_to_float64(case):
    model, weights, adapter, ids, labels = case
    loss, exact = Reference(copy.deepcopy(model), weights, adapter, ALPHA).loss_and_gradients(ids, labels)
    rounding = Reference(model, weights, adapter, ALPHA, torch.float32)
    rounded_loss, rounded = rounding.loss_and_gradients(ids, labels)
    assert rounded_loss == pytest.approx(loss, rel=1e-6)
    assert rounded.keys() == exact.keys() == adapter.keys()
    assert max(relative_error(rounded[key], exact[key]) for key in exact) < 1e-5
