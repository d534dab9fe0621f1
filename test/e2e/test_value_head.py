# SPDX-License-Identifier: Apache-2.0
"""What the head gives beside log-probabilities: values, and an entropy that a loss may depend on."""

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import mebp
from mebp.compiler import check_options
from mebp.inspect import describe_trained, inspect
from mebp.verification.comparison import relative_error
from mebp.verification.inputs import randomise_adapter
from support import models
from support.commands import mebp as command
from support.pipeline import check, compare_gradients, make_bundle, reference_for

LENGTH, TEMPERATURE = 24, 0.7
WEIGHT, BIAS = "value_head.weight", "value_head.bias"
# What the bundle has, and whether the head itself is trained, whose gradients then need the same coefficients.
CASES = {
    "values": {"value_head": True},
    "entropy": {"entropy_bonus": True},
    "both": {"value_head": True, "entropy_bonus": True, "chunk_size": 7},
    "both, head trained": {"value_head": True, "entropy_bonus": True, "lora": mebp.LoRA(targets="q_proj,lm_head")},
    "both, layer norms and a tied head": {"value_head": True, "entropy_bonus": True},
}


def make(folder, name: str, **options):
    model = models.build("gpt2") if "tied" in name else models.build("llama", num_hidden_layers=2)
    bundle = make_bundle(model, folder, seq_len=LENGTH, **CASES[name], **options)
    session = mebp.Session(bundle, accumulate=True, optimizer="sgd", lr=1.0)
    randomise_adapter(session, seed=1)
    return model, bundle, session


def draw(session, seed: int, length: int = LENGTH) -> tuple:
    random = np.random.default_rng(seed)
    ids, mask = random.integers(0, session.vocabulary, (1, length)), random.random((1, length)) < 0.6
    return ids, mask, *(random.normal(size=(1, length - 1)) for _ in range(3))


def parts(reference, ids, has_values: bool):
    """Log-probabilities, entropies and values, in torch."""
    ids = torch.from_numpy(ids)
    if has_values:
        logits, values = reference.logits_and_values(ids)
    else:
        logits, values = reference.model(input_ids=ids, use_cache=False).logits, None
    logps = (logits[:, :-1].double() / TEMPERATURE).log_softmax(-1)
    return logps.gather(-1, ids[:, 1:, None])[..., 0], -(logps.exp() * logps).sum(-1), values


@pytest.mark.parametrize("name", CASES)
def test_gradients(tmp_path, show, name):
    """Of a sum over log-probabilities, entropies and values with coefficients of both signs, of two sequences."""
    model, bundle, session = make(tmp_path, name)
    drawn = [draw(session, seed, length) for seed, length in ((2, LENGTH), (3, 9))]

    def loss(reference):
        total = 0.0
        for ids, mask, c, h, v in drawn:
            logps, entropies, values = parts(reference, ids, session.has_values)
            counted = torch.from_numpy(mask[:, 1:])
            terms = torch.from_numpy(c) * logps
            if session.has_entropy_bonus:
                terms = terms + torch.from_numpy(h) * entropies
            if session.has_values:
                terms = terms + torch.from_numpy(v) * values[:, :-1]
            total = total + (terms * counted).sum()
        return total

    exact, torchs = (
        reference_for(bundle, session, model, dtype).gradients_of(loss)[1] for dtype in (torch.float64, torch.float32)
    )
    reference = reference_for(bundle, session, model, torch.float64)
    for ids, mask, c, h, v in drawn:
        sequence = session.sequence(ids, mask, TEMPERATURE)
        scores = session.scores(ids, mask, temperature=TEMPERATURE)
        sequence = session.sequence(ids, mask, TEMPERATURE)
        _, entropies, values = (None if each is None else each.detach().numpy() for each in parts(
            reference, ids, session.has_values))  # fmt: skip
        assert relative_error(sequence.entropy, entropies * mask[:, 1:]) <= 2e-6
        assert np.array_equal(scores.entropy, sequence.entropy)
        if session.has_values:
            assert relative_error(sequence.values, values[:, :-1] * mask[:, 1:]) <= 2e-6
            assert np.array_equal(scores.values, sequence.values)
        sequence.backward(c, entropy=h if session.has_entropy_bonus else None, values=v if session.has_values else None)
    found = session.gradients()
    assert found.keys() == exact.keys() == session.trainables().keys()
    assert (WEIGHT in found) == session.has_values
    errors = {key: relative_error(found[key], value) for key, value in exact.items()}
    of_torch = {key: relative_error(torchs[key], value) for key, value in exact.items()}
    show(f"{name}: worst gradient {max(errors.values()):.1e}, torch f32 {max(of_torch.values()):.1e}")
    for key, error in errors.items():
        assert error <= max(2e-5, 2 * of_torch[key]), key


@pytest.mark.parametrize("name", ["both", "both, head trained"])
def test_the_mean_loss_knows_nothing_of_them(tmp_path, name):
    model, bundle, session = make(tmp_path, name)
    other = mebp.Session(bundle)
    other.set_trainables(session.trainables())
    ids = models.token_ids(model, 1, LENGTH).numpy()
    check(compare_gradients(bundle, other, model, ids, ids))
    _, gradients = other.loss_and_gradients(ids, ids)
    assert not gradients[WEIGHT].any() and not gradients[BIAS].any()
    assert "trained" in name or command("verify", bundle).returncode == 0


def test_in_bf16(tmp_path):
    """A value is what bf16 makes of the hidden state, and its gradient is as far off as others are."""
    model, bundle, session = make(tmp_path, "both", precision="bf16", weights="bf16")
    ids, mask, c, h, v = draw(session, 4)

    def loss(reference):
        logps, entropies, values = parts(reference, ids, True)
        by = (torch.from_numpy(each * mask[:, 1:]) for each in (c, h, v))
        return sum((each * of).sum() for each, of in zip(by, (logps, entropies, values[:, :-1]), strict=True))

    exact = reference_for(bundle, session, model, torch.float64).gradients_of(loss)[1]
    sequence = session.sequence(ids, mask, TEMPERATURE)
    assert (sequence.values.copy().view(np.uint32) & 0xFFFF).any()  # what is given is not rounded to bf16 itself
    sequence.backward(c, entropy=h, values=v)
    errors = {key: relative_error(value, exact[key]) for key, value in session.gradients().items()}
    assert max(errors[WEIGHT], errors[BIAS]) <= 2e-2
    assert np.median(list(errors.values())) <= 5e-2


def test_adapter(tmp_path):
    """The value head lies beside the adapter, which PEFT and bundles without one read."""
    model, bundle, session = make(tmp_path, "values")
    assert describe_trained(inspect(bundle)).endswith(" and a value head")
    session.save_adapter(tmp_path / "adapter")
    assert load_file(tmp_path / "adapter" / "value_head.safetensors").keys() == {WEIGHT, BIAS}
    assert not any("value" in name for name in load_file(tmp_path / "adapter" / "adapter_model.safetensors"))
    again = mebp.Session(bundle)
    assert not again.trainables()[WEIGHT].any()
    again.load_adapter(tmp_path / "adapter")
    assert all(np.array_equal(again.trainables()[key], value) for key, value in session.trainables().items())
    (tmp_path / "plain").mkdir()
    plain = mebp.Session(make_bundle(model, tmp_path / "plain", seq_len=LENGTH))
    plain.load_adapter(tmp_path / "adapter")
    plain.save_adapter(tmp_path / "adapter")  # nothing of another session stays
    assert not (tmp_path / "adapter" / "value_head.safetensors").exists()
    again.load_adapter(tmp_path / "adapter")
    assert not again.trainables()[WEIGHT].any()
    save_file({WEIGHT: np.zeros((1, 3), np.float32)}, tmp_path / "adapter" / "value_head.safetensors")
    before = again.trainables()
    with pytest.raises(mebp.Error, match="'value_head.weight' is 1 x 3, the bundle's is 1 x "):
        again.load_adapter(tmp_path / "adapter")
    assert all(np.array_equal(again.trainables()[key], value) for key, value in before.items())


def test_memory(tmp_path):
    """What a session takes is what mebpc planned, and a bundle without them pays for neither."""
    plans = {}
    for name in ("plain", "values", "entropy"):
        folder = tmp_path / name
        folder.mkdir()
        model = models.build("llama", num_hidden_layers=2)
        bundle = make_bundle(model, folder, seq_len=LENGTH, **CASES.get(name, {}))
        session = mebp.Session(bundle, return_gradients=False)
        plan = inspect(bundle)["plan"]
        assert plan["peak_bytes"] == session.plan["planned_peak_bytes"], name
        plans[name] = session.plan
    assert plans["entropy"]["peak_bytes"] - plans["plain"]["peak_bytes"] <= 128
    assert plans["values"]["peak_bytes"] > plans["plain"]["peak_bytes"]


def test_refusals(tmp_path):
    model = models.build("llama", num_hidden_layers=2)
    bundle = make_bundle(model, tmp_path, seq_len=LENGTH)
    session = mebp.Session(bundle, accumulate=True)
    assert not session.has_values and session.scores(np.array([[1, 2]])).values is None
    for given, line in (
        ("entropy", "the bundle's head has no derivative of its entropy; compile it with --entropy-bonus"),
        ("values", "the bundle's head gives no values; compile it with --value-head"),
    ):
        sequence = session.sequence(np.array([[1, 2]]))
        with pytest.raises(mebp.Error, match=line):
            sequence.backward([[1.0]], **{given: [[1.0]]})
    for option, other in (("train", "full"), ("adapter", "private-lora")):
        with pytest.raises(mebp.Error) as caught:
            check_options({"value_head": True, option: other})
        assert str(caught.value) == f"--value-head: is not for --{option} {other}; leave it out, or train LoRA"
