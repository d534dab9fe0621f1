# SPDX-License-Identifier: Apache-2.0
"""ORPO's loss and coefficients against autograd through TRL's own code, which computes odds in float32, and through its
formula in float64."""

import dataclasses

import numpy as np
import pytest
import torch

from mebp import Error
from mebp.objectives.orpo import ORPO, ORPOOptions, log_odds
from support import trl_losses

VOCABULARY, END = 7, 6
LENGTHS = [(3, 4, 6), (1, 5, 2), (2, 1, 3), (4, 3, 3)]  # of prompts, chosen and rejected answers


def _case(seed=0):
    """Pairs as ids, and logits [chosen..., rejected...]."""
    generator = torch.Generator().manual_seed(seed)

    def ids(length):
        return torch.randint(END, (length,), generator=generator).tolist()

    pairs = [(ids(prompt), [*ids(won - 1), END], [*ids(lost - 1), END]) for prompt, won, lost in LENGTHS]
    longest = max(prompt + max(answers) for prompt, *answers in LENGTHS)
    return pairs, torch.randn(2 * len(pairs), longest, VOCABULARY, generator=generator, dtype=torch.float64)


def _sequence(logits, prompt, answer):
    """Log-probabilities of all tokens but the first, and those of the whole vocabulary in their places."""
    ids = torch.tensor([*prompt, *answer])
    every = logits[: len(ids) - 1].log_softmax(-1)
    return every.gather(1, ids[1:, None]).squeeze(1).numpy(), every.exp().numpy(), ids[1:].numpy()


def _ours(options, pairs, logits):
    """Loss, its gradient by the logits as the coefficients make it, and metrics."""
    orpo, count = ORPO(options), len(pairs)
    tokens = sum(len(prompt) + len(chosen) - 1 for prompt, chosen, _ in pairs)
    loss, nll, gradient, metrics = 0.0, 0.0, np.zeros(logits.shape), []
    for row, (prompt, *answers) in enumerate(pairs):
        parts = [_sequence(logits[row + side * count], prompt, answer) for side, answer in enumerate(answers)]
        before = len(prompt) - 1
        won, lost = (orpo.score(logps[before:], logps[:before]) for logps, _, _ in parts)
        result = orpo.pair(won, lost, count, tokens)
        for side, (number, (logps, probabilities, ids)) in enumerate(
            zip((result.chosen, result.rejected), parts, strict=True)
        ):
            coefficients = np.zeros(len(logps))
            coefficients[before:] = number * orpo.token_weights(len(logps) - before)
            if side == 0:
                coefficients += orpo.likelihood_coefficient(tokens)
            one_hot = np.eye(VOCABULARY)[ids]
            gradient[row + side * count, : len(ids)] = coefficients[:, None] * (one_hot - probabilities)
        loss, nll = loss + result.loss, nll + result.nll
        metrics.append(orpo.metrics(won, lost))
    means = {name: np.mean([each[name] for each in metrics]) for name in metrics[0]}
    return loss, gradient, means | {"nll_loss": nll}


def _compare(options, seed=0, ours=_ours):
    """In float32, for TRL's code takes no other for odds."""
    pairs, logits = _case(seed)
    logits.requires_grad_()
    loss, metrics = trl_losses.orpo_loss(options, pairs, logits)
    loss.backward()
    with torch.no_grad():
        our_loss, gradient, our_metrics = ours(options, pairs, logits.detach())
    np.testing.assert_allclose(our_loss, loss.item(), rtol=2e-5)
    np.testing.assert_allclose(gradient, logits.grad.numpy(), rtol=0, atol=2e-5 * float(logits.grad.abs().max()))
    assert {name for name in metrics if not name.startswith("logits/")} == our_metrics.keys()
    for name, value in our_metrics.items():
        np.testing.assert_allclose(value, metrics[name], rtol=2e-5, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("beta", [0.1, 0.5, 3.0])
def test_losses_and_coefficients_are_trls(beta):
    for seed in range(3):
        _compare(ORPOOptions(beta=beta), seed)


def test_the_odds_are_trls_in_float64():
    log1mexp = trl_losses.trainer("trl.experimental.orpo.orpo_trainer", "log1mexp")
    means = torch.tensor([-1e3, -20.0, -3.0, -0.7, -0.69, -0.1, -1e-3, -2e-6], dtype=torch.float64, requires_grad=True)
    exact = means - log1mexp(means)
    exact.sum().backward()
    for mean, value, slope in zip(means.tolist(), exact.tolist(), means.grad.tolist(), strict=True):
        np.testing.assert_allclose(log_odds(mean), (value, slope), rtol=1e-12)


def test_odds_of_what_is_certain_go_on_as_their_tangent():
    value, slope = log_odds(-1e-6)
    for mean in (-1e-7, 0.0, 1e-6):
        np.testing.assert_allclose(log_odds(mean), (value + slope * (mean + 1e-6), slope), rtol=1e-12)


def test_losses_stay_finite_at_either_end():
    orpo = ORPO()
    for chosen in (-1e4, 0.0, 1e-6):
        for rejected in (-1e4, 0.0, 1e-6):
            result = orpo.pair(orpo.score(np.full(3, chosen)), orpo.score(np.full(2, rejected)), 1, 3)
            assert np.isfinite(dataclasses.astuple(result)).all(), (chosen, rejected)


def _prompts_left_out(options, pairs, logits):
    orpo = ORPO(options)
    loss, gradient, metrics = _ours(options, pairs, logits)
    tokens = sum(len(prompt) + len(chosen) - 1 for prompt, chosen, _ in pairs)
    for row, (prompt, chosen, _) in enumerate(pairs):
        gradient[row, : len(prompt) - 1] = 0
        logps = _sequence(logits[row], prompt, chosen)[0][: len(prompt) - 1]
        loss -= orpo.likelihood_coefficient(tokens) * logps.sum()
    return loss, gradient, metrics


def _swapped(options, pairs, logits):
    loss, gradient, metrics = _ours(options, pairs, logits)
    return loss, np.roll(gradient, len(pairs), axis=0), metrics


def _sum_for_mean(options, pairs, logits):
    loss, gradient, metrics = _ours(options, pairs, logits)
    for row, (_, _, rejected) in enumerate(pairs):
        gradient[len(pairs) + row] *= len(rejected)
    return loss, gradient, metrics


@pytest.mark.parametrize("planted", [_prompts_left_out, _swapped, _sum_for_mean], ids=lambda f: f.__name__)
def test_a_planted_error_is_caught(planted):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        _compare(ORPOOptions(), ours=planted)


def test_probabilities_in_place_of_odds_are_caught(monkeypatch):
    monkeypatch.setattr("mebp.objectives.orpo.log_odds", lambda logp: (logp, 1.0))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        _compare(ORPOOptions())


@pytest.mark.parametrize("beta", [0.0, -0.1, float("nan"), float("inf")])
def test_options_that_cannot_be_meant_are_refused(beta):
    with pytest.raises(Error, match=f"beta is {beta}; give a finite number above 0"):
        ORPOOptions(beta=beta)
