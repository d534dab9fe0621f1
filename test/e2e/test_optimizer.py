# SPDX-License-Identifier: Apache-2.0
"""The optimizers alone, on recorded gradients: two right runs of a model drift apart, so only this can be exact."""

import functools
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import mebp
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.pipeline import make_bundle

STEPS = 50


def _lion(parameters, **options):
    return pytest.importorskip("lion_pytorch").Lion(parameters, **options)


def _adamw8bit(parameters, **options):
    """bitsandbytes' on the CPU, but for its quantisation there, which is not to the nearest value near zero (of 0 it
    makes 2e-5 of the block's largest). Its kernels for CUDA, and its own code for other types, are; so it is given
    doubles, which go that way."""
    sys.path.append(str(Path(sys.prefix) / "judges"))  # where scripts/setup.sh puts it
    optim = pytest.importorskip("bitsandbytes.optim")
    from bitsandbytes.backends.cpu import ops

    def quantise(values, code, absmax, out, blocksize):
        codes, largest = torch.ops.bitsandbytes.quantize_blockwise(values.double(), code, blocksize)
        out.copy_(codes)
        absmax.copy_(largest)

    ops._quant_blockwise_fp32_direct = quantise
    return optim.AdamW8bit(parameters, **options)


# By name: the optimizer that it is, whose it is, and its own options for both.
OPTIMIZERS = {
    "adamw": ("adamw", torch.optim.AdamW, {}),
    "adamw, other betas": ("adamw", torch.optim.AdamW, {"betas": (0.3, 0.9), "eps": 1e-5}),
    "sgd": ("sgd", torch.optim.SGD, {}),
    "sgd, momentum": ("sgd", torch.optim.SGD, {"momentum": 0.9}),
    "lion": ("lion", _lion, {}),
    "lion, other betas": ("lion", _lion, {"betas": (0.95, 0.98)}),
    "adamw8bit": ("adamw8bit", _adamw8bit, {}),
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    model = models.build("llama", num_hidden_layers=1)
    return make_bundle(model, tmp_path_factory.mktemp("optimizer"), seq_len=24, lora=mebp.LoRA(rank=RANK))


RANK = 48  # tensors lie on both sides of the 4096 elements from which on adamw8bit has codes


@functools.cache
def recorded(shapes: tuple) -> list[dict[str, np.ndarray]]:
    generator = np.random.default_rng(0)
    steps = []
    for _ in range(STEPS):
        # Sizes over six orders of magnitude: a gradient's epsilon and bias correction must count too.
        scale = 10.0 ** generator.uniform(-6, 0)
        steps.append({key: (scale * generator.normal(size=shape)).astype(np.float32) for key, shape in shapes})
    return steps


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_follow_the_original(bundle, show, name, weight_decay):
    optimizer_name, make, options = OPTIMIZERS[name]
    session = mebp.Session(bundle, optimizer=optimizer_name, lr=1e-3, weight_decay=weight_decay, **options)
    randomise_adapter(session)
    parameters = {key: torch.nn.Parameter(torch.from_numpy(values)) for key, values in session.trainables().items()}
    sizes = [parameter.numel() for parameter in parameters.values()]
    assert min(sizes) < 4096 < max(sizes)
    optimizer = make(parameters.values(), lr=1e-3, weight_decay=weight_decay, **options)
    for gradients in recorded(tuple((key, tuple(parameter.shape)) for key, parameter in parameters.items())):
        for key, parameter in parameters.items():
            parameter.grad = torch.from_numpy(gradients[key].copy())
        optimizer.step()
        session.apply_gradients(gradients)
    assert session.steps == STEPS
    ours = session.trainables()
    errors = [relative_error(ours[key], parameter.detach().numpy()) for key, parameter in parameters.items()]
    show(f"{name}, decay {weight_decay}, {STEPS} steps: parameters within {max(errors):.1e} of the original's")
    assert max(errors) <= 1e-6


@pytest.mark.parametrize("spill", ["none", "all"])
def test_a_planned_momentum_is_the_session_s(tmp_path, spill):
    model = models.build("llama", num_hidden_layers=1)
    make_bundle(model, tmp_path, seq_len=24)
    state, sessions = {}, {}
    for name, options in {"plain": {}, "momentum": {"momentum": 0.9}}.items():
        bundle = tmp_path / f"{name}.mebp"
        mebp.compile(tmp_path / "model.onnx", bundle, optimizer="sgd", spill=spill, **options)
        sessions[name] = mebp.Session(bundle, return_gradients=False)
        plan = sessions[name].plan
        assert plan["peak_bytes"] == plan["planned_peak_bytes"]
        state[name] = plan["arenas"].get("optimizer", 0)
    shapes = [np.asarray(values).nbytes for values in sessions["momentum"].trainables().values()]
    planned = [-(-size // 64) * 64 for size in shapes]
    assert state == {"plain": 0, "momentum": sum(planned) if spill == "none" else max(planned)}

    # The bundle's own is taken where none is given, and only with the optimizer that it is of.
    ids = np.asarray(models.token_ids(model, 1, 24))
    sessions["given"] = mebp.Session(tmp_path / "plain.mebp", momentum=0.9)
    sessions["none"] = mebp.Session(tmp_path / "momentum.mebp", momentum=0.0)
    for session in sessions.values():
        for _ in range(3):
            session.step(ids, ids)
    values = {name: list(session.trainables().values()) for name, session in sessions.items()}
    assert all(map(np.array_equal, values["momentum"], values["given"]))
    assert all(map(np.array_equal, values["plain"], values["none"]))
    assert not all(map(np.array_equal, values["momentum"], values["none"]))
    assert mebp.Session(tmp_path / "momentum.mebp", optimizer="adamw").optimizer == "adamw"
