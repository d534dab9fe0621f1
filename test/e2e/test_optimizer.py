# SPDX-License-Identifier: Apache-2.0
"""The optimizers alone, on recorded gradients: two right runs of a model drift apart, so only this can be exact."""

import numpy as np
import pytest
import torch

import mebp
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.pipeline import make_bundle

STEPS = 50
OPTIMIZERS = {
    "adamw": (torch.optim.AdamW, {"betas": (0.9, 0.999), "eps": 1e-8}),
    "sgd": (torch.optim.SGD, {}),
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return make_bundle(models.build("llama"), tmp_path_factory.mktemp("optimizer"), seq_len=24)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_follow_torch(bundle, show, name, weight_decay):
    make, options = OPTIMIZERS[name]
    session = mebp.Session(bundle, optimizer=name, lr=1e-3, weight_decay=weight_decay)
    randomise_adapter(session)
    parameters = {key: torch.nn.Parameter(torch.from_numpy(values)) for key, values in session.trainables().items()}
    optimizer = make(parameters.values(), lr=1e-3, weight_decay=weight_decay, **options)
    generator = np.random.default_rng(0)
    for _ in range(STEPS):
        # Sizes over six orders of magnitude: a gradient's epsilon and bias correction must count too.
        scale = 10.0 ** generator.uniform(-6, 0)
        gradients = {
            key: (scale * generator.normal(size=parameter.shape)).astype(np.float32)
            for key, parameter in parameters.items()
        }
        for key, parameter in parameters.items():
            parameter.grad = torch.from_numpy(gradients[key])
        optimizer.step()
        session.apply_gradients(gradients)
    assert session.steps == STEPS
    ours = session.trainables()
    errors = [relative_error(ours[key], parameter.detach().numpy()) for key, parameter in parameters.items()]
    show(f"{name}, decay {weight_decay}, {STEPS} steps: parameters within {max(errors):.1e} of torch.optim's")
    assert max(errors) <= 1e-6
