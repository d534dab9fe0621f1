# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities of any adapter and temperature, and steps over sequences, against torch in float64."""

import numpy as np
import pytest
import torch

import mebp
import mebp.torch
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.pipeline import make_bundle, reference_for

LENGTH, TEMPERATURE = 24, 0.7


@pytest.fixture(scope="module")
def model():
    return models.build("llama")


@pytest.fixture(scope="module")
def bundle(model, tmp_path_factory):
    return make_bundle(model, tmp_path_factory.mktemp("sequences"), seq_len=LENGTH)


def make_session(bundle, **options) -> mebp.Session:
    session = mebp.Session(bundle, **{"accumulate": True, "optimizer": "sgd", "lr": 1.0, **options})
    randomise_adapter(session, seed=1)
    return session


def draw(session, seed: int, length: int = LENGTH) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    ids = random.integers(0, session.vocabulary, (1, length))
    return ids, random.random((1, length)) < 0.6


def true_logprobs(reference, ids, mask, temperature=1.0):
    """float64, 0 where a token is not scored."""
    logits = torch.from_numpy(reference.logits(ids))[:, :-1] / temperature
    found = logits.log_softmax(-1).gather(-1, torch.from_numpy(ids[:, 1:, None]))[..., 0].numpy()
    return found * mask[:, 1:]


@pytest.mark.parametrize("temperature", [1.0, TEMPERATURE])
def test_logprobs(bundle, model, temperature):
    session = make_session(bundle)
    ids, mask = draw(session, 0)
    exact = true_logprobs(reference_for(bundle, session, model, torch.float64), ids, mask, temperature)
    found = session.logprobs(ids, mask, temperature=temperature)
    assert found.dtype == np.float32 and found.shape == (1, LENGTH - 1)
    assert relative_error(found, exact) <= 2e-6
    assert not found[~mask[:, 1:]].any()
    scored = session.logprobs(ids, temperature=temperature)
    assert np.array_equal(scored * mask[:, 1:], found)  # which tokens are scored makes no difference to the others
    with session.sequence(ids, mask, temperature=temperature) as sequence:
        assert np.array_equal(sequence.logprobs, found)


def test_adapter_aside(bundle):
    session, fresh = make_session(bundle), mebp.Session(bundle, accumulate=True)
    ids, mask = draw(session, 1)
    adapter, own = session.trainables(), session.logprobs(ids, mask)
    base = session.logprobs(ids, mask, adapter=False)
    assert np.array_equal(base, fresh.logprobs(ids, mask))  # an adapter begins as none
    assert not np.array_equal(base, own)
    assert np.array_equal(fresh.logprobs(ids, mask, adapter=adapter), own)
    assert np.array_equal(session.logprobs(ids, mask), own)
    assert all(np.array_equal(session.trainables()[key], adapter[key]) for key in adapter)


@pytest.mark.parametrize("temperature", [1.0, TEMPERATURE])
@pytest.mark.parametrize("options", [{}, {"lora": mebp.LoRA(targets="q_proj,lm_head")}], ids=["frozen head", "head"])
def test_gradients(model, tmp_path, temperature, options):
    """Of sum c logp, whose coefficients have both signs and cancel in part."""
    bundle = make_bundle(model, tmp_path, seq_len=LENGTH, **options)
    session = make_session(bundle)
    pairs = [draw(session, seed, length) for seed, length in ((2, LENGTH), (3, 9))]
    random = np.random.default_rng(4)
    coefficients = [random.normal(size=(1, ids.shape[1] - 1)) for ids, _ in pairs]

    def loss(reference):
        total = 0.0
        for (ids, mask), each in zip(pairs, coefficients, strict=True):
            logits = reference.model(torch.from_numpy(ids)).logits[:, :-1] / temperature
            logps = logits.log_softmax(-1).gather(-1, torch.from_numpy(ids[:, 1:, None]))[..., 0]
            total = total + (logps * torch.from_numpy(each * mask[:, 1:]).to(logps.dtype)).sum()
        return total

    exact, torchs = (
        reference_for(bundle, session, model, dtype).gradients_of(loss)[1] for dtype in (torch.float64, torch.float32)
    )
    for (ids, mask), each in zip(pairs, coefficients, strict=True):
        with session.sequence(ids, mask, temperature=temperature) as sequence:
            sequence.backward(each)
    found = session.gradients()
    assert found.keys() == exact.keys()
    for key in exact:
        assert relative_error(found[key], exact[key]) <= max(2e-5, 2 * relative_error(torchs[key], exact[key])), key
    before = session.trainables()
    result = session.apply()
    assert session.steps == 1
    assert result.grad_norm == pytest.approx(np.sqrt(sum((each**2).sum() for each in found.values())), rel=1e-5)
    for key, values in session.trainables().items():
        assert np.allclose(values, before[key] - found[key], atol=1e-6)


def test_torch(bundle):
    """A loss of torch's drives the backward: the same coefficients by hand give the same gradients."""
    session, other = make_session(bundle), make_session(bundle)
    rows = [draw(session, seed) for seed in (5, 6, 7)]
    ids, mask = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    logps = mebp.torch.logprobs(session, torch.from_numpy(ids), torch.from_numpy(mask), TEMPERATURE)
    assert logps.shape == (3, LENGTH - 1) and logps.requires_grad
    weights = torch.tensor([[1.0], [-0.5], [0.25]])
    loss = torch.nn.functional.softplus((weights * logps).sum(1)).sum()
    loss.backward()
    sums = (weights.numpy() * logps.detach().numpy()).sum(1, keepdims=True)
    coefficients = weights.numpy() / (1 + np.exp(-sums)) * np.ones_like(logps.detach().numpy())
    for row in (2, 0, 1):  # the last one is still there, and the others follow
        with other.sequence(*rows[row], temperature=TEMPERATURE) as sequence:
            assert np.array_equal(sequence.logprobs[0], logps[row].detach().numpy())
            sequence.backward(coefficients[row : row + 1])
    for key, values in other.gradients().items():
        assert relative_error(session.gradients()[key], values) <= 1e-6
    with torch.no_grad():
        assert not mebp.torch.logprobs(session, ids, mask, TEMPERATURE).requires_grad


def test_refusals(bundle):
    session = make_session(bundle)
    ids, mask = draw(session, 8)

    def refuses(line, call):
        with pytest.raises(mebp.Error) as caught:
            call()
        assert str(caught.value) == line

    ended = "this sequence has ended, or another call has taken its memory; begin it again"
    first = session.sequence(ids)
    second = session.sequence(ids, mask)
    refuses(ended, lambda: first.backward(np.zeros((1, LENGTH - 1))))
    refuses(
        f"coefficients have shape [{LENGTH - 1}]; give [1, {LENGTH - 1}], as logprobs has",
        lambda: second.backward(np.zeros(LENGTH - 1)),
    )
    second.backward(np.ones((1, LENGTH - 1)))
    refuses(ended, lambda: second.backward(np.zeros((1, LENGTH - 1))))
    refuses(
        f"mask has shape [1, 3] and dtype bool; give one bool or 0 or 1 for each of the tokens [1, {LENGTH}]",
        lambda: session.logprobs(ids, mask[:, :3]),
    )
    for temperature in (0, -1.0, float("nan"), "1"):
        refuses(
            f"temperature is {temperature}; give a finite number above 0",
            lambda given=temperature: session.logprobs(ids, temperature=given),
        )
    key = next(iter(session.trainables()))
    session.discard()
    others = {name: values for name, values in session.trainables().items() if name != key}
    refuses(f"trainable '{key}' is missing; give all {len(others) + 1}", lambda: session.logprobs(ids, adapter=others))
