# SPDX-License-Identifier: Apache-2.0
"""The optimizers alone, on recorded gradients: two right runs of a model drift apart, so only this can be exact."""

import functools

import numpy as np
import pytest
import torch

import mebp
from mebp.extension import load_runtime
from mebp.session_options import optimizer_option_kinds
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.judges import judge
from support.pipeline import make_bundle

STEPS = 50


def _lion(parameters, **options):
    return judge("lion_pytorch").Lion(parameters, **options)


def _adamw8bit(parameters, **options):
    """bitsandbytes' on the CPU, but for its quantisation there, which is not to the nearest value near zero (of 0 it
    makes 2e-5 of the block's largest). Its kernels for CUDA, and its own code for other types, are; so it is given
    doubles, which go that way."""
    optim = judge("bitsandbytes.optim")
    from bitsandbytes.backends.cpu import ops

    def quantise(values, code, absmax, out, blocksize):
        codes, largest = torch.ops.bitsandbytes.quantize_blockwise(values.double(), code, blocksize)
        out.copy_(codes)
        absmax.copy_(largest)

    ops._quant_blockwise_fp32_direct = quantise
    return optim.AdamW8bit(parameters, **options)


# By name: the optimizer that it is, whose it is, and options for both.
OPTIMIZERS = {
    "adamw": ("adamw", torch.optim.AdamW, {}),
    "adamw, other betas": ("adamw", torch.optim.AdamW, {"betas": (0.3, 0.9), "eps": 1e-5}),
    "sgd": ("sgd", torch.optim.SGD, {}),
    "sgd, momentum": ("sgd", torch.optim.SGD, {"momentum": 0.9}),
    "lion": ("lion", _lion, {}),
    "lion, other betas": ("lion", _lion, {"betas": (0.95, 0.98)}),
    "adamw8bit": ("adamw8bit", _adamw8bit, {}),
}
# The slope of MeZO is in test_mezo.py, projected gradients in test_galore.py and test_qgalore.py.
COMPARED_ELSEWHERE = {"mezo", "galore", "qgalore"}


def test_each_optimizer_is_compared():
    names = {name for name, _ in load_runtime().optimizers()}
    assert {name for name, _, _ in OPTIMIZERS.values()} == names - COMPARED_ELSEWHERE


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
    optimizer_name, make, own = OPTIMIZERS[name]
    options = {"lr": 1e-3, "weight_decay": weight_decay, **own}
    session = mebp.Session(bundle, optimizer=optimizer_name, **options)
    randomise_adapter(session)
    parameters = {key: torch.nn.Parameter(torch.from_numpy(values)) for key, values in session.trainables().items()}
    sizes = [parameter.numel() for parameter in parameters.values()]
    assert min(sizes) < 4096 < max(sizes)
    optimizer = make(parameters.values(), **options)
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
        mebp.compile(tmp_path / "model.onnx", bundle, seq_len=24, batch=1, optimizer="sgd", spill=spill, **options)
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


@pytest.mark.parametrize("name", optimizer_option_kinds())
def test_an_option_is_refused_by_its_name(bundle, name):
    with pytest.raises(mebp.Error) as refused:
        mebp.Session(bundle, **{name: -2})
    shown = "'-2'" if optimizer_option_kinds()[name] is str else "-2"
    assert str(refused.value).startswith((f"{name} is {shown}; give ", f"{name} is {shown}; choose "))


def test_other_options_are_refused(bundle):
    for options, line in [
        (
            {"betas": (0.9, 1.5)},
            "betas is 0.9,1.5; give 2 with a comma between, each a number of at least 0 and below 1",
        ),
        ({"betas": 0.9}, "betas is 0.9; give 2 with a comma between, each a number of at least 0 and below 1"),
        ({"eps": float("nan")}, "eps is nan; give a finite number of at least 0"),
        ({"optimizer": "mezo", "perturbation": 0}, "perturbation is 0; give a finite number above 0"),
        ({"momentum": 0.9}, "adamw has no option 'momentum'; leave it out, or choose sgd"),
    ]:
        with pytest.raises(mebp.Error) as refused:
            mebp.Session(bundle, **options)
        assert str(refused.value) == line
    with pytest.raises(mebp.Error, match="Session has no argument 'beta'; did you mean betas"):
        mebp.Session(bundle, beta=0.9)


def test_an_option_that_is_none_is_the_optimizer_s_own(bundle):
    sessions = [mebp.Session(bundle, optimizer="lion", lr=1e-3, **options)
                for options in ({}, {"betas": None, "eps": None}, {"betas": [np.float32(0.9), 0.99]},
                                {"betas": (0.5, 0.99)})]  # fmt: skip
    ids = np.arange(24)[None]
    for session in sessions:
        for _ in range(3):
            session.step(ids, ids)
    first, *same, other = [np.concatenate([each.ravel() for each in session.trainables().values()])
                           for session in sessions]  # fmt: skip
    assert all(np.array_equal(first, each) for each in same)
    assert not np.array_equal(first, other)
