# SPDX-License-Identifier: Apache-2.0
"""PPO's targets, losses and coefficients against autograd through TRL 1.12's formulas, in float64."""

import dataclasses

import numpy as np
import pytest
import torch

from mebp import Error
from mebp.objectives import ppo
from mebp.objectives.ppo import PPO, Episode, PPOOptions
from support import ppo_reference

LENGTHS, LIMIT = [3, 6, 1, 5], 6  # the second was cut off at the limit


def _case(seed=0, spread=0.3):
    rng = np.random.default_rng(seed)
    shape = len(LENGTHS), LIMIT
    old = -rng.exponential(1.5, shape)
    return {
        "old": old,
        "logps": old + rng.normal(0, spread, shape),
        "reference": old + rng.normal(0, spread, shape),
        "old_values": rng.normal(0, 1, shape),
        "values": rng.normal(0, 1, shape),
        "scores": rng.normal(0, 1, len(LENGTHS)),
        "ended": np.array([True, False, True, True]),
    }


def _positions(length):
    return min(length + 1, LIMIT)


def _episodes(case):
    return [
        Episode(
            case["old"][row, :length],
            case["reference"][row, :length],
            case["old_values"][row, : _positions(length)],
            case["scores"][row],
            bool(case["ended"][row]),
        )
        for row, length in enumerate(LENGTHS)
    ]


def _ours(options, case):
    """Loss, dL/dlogp and dL/dvalue, padded with zeros."""
    algorithm, episodes = PPO(options), _episodes(case)
    targets = algorithm.targets(episodes)
    tokens, positions = sum(LENGTHS), sum(map(_positions, LENGTHS))
    loss, by_logp, by_value = 0.0, np.zeros((len(LENGTHS), LIMIT)), np.zeros((len(LENGTHS), LIMIT))
    for row, (episode, target) in enumerate(zip(episodes, targets, strict=True)):
        written, valued = slice(len(episode.logps)), slice(len(episode.values))
        policy = algorithm.policy(case["logps"][row, written], episode.logps, target.advantages, tokens)
        value = algorithm.value(case["values"][row, valued], episode.values, target.returns, positions)
        loss += policy.loss + value.loss
        by_logp[row, written], by_value[row, valued] = policy.coefficients, value.coefficients
    return loss, by_logp, by_value


def _theirs(options, case):
    tensors = {name: torch.tensor(values) for name, values in case.items()}
    lengths = torch.tensor(LENGTHS)
    advantages, returns = ppo_reference.targets(
        options,
        tensors["old"],
        tensors["reference"],
        tensors["old_values"],
        tensors["scores"],
        lengths,
        tensors["ended"],
    )
    logps, values = tensors["logps"].requires_grad_(), tensors["values"].requires_grad_()
    loss = ppo_reference.loss(
        options, logps, tensors["old"], values, tensors["old_values"], advantages, returns, lengths
    )
    loss.backward()
    return loss.item(), logps.grad.numpy(), values.grad.numpy()


def _compare(options, seed=0, ours=_ours):
    case = _case(seed)
    for one, other in zip(ours(options, case), _theirs(options, case), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"kl_estimator": "k3", "kl_coef": 0.5},
        {"whiten_rewards": True},
        {"gamma": 0.9, "lam": 0.7},
        {"cliprange": 0.05, "cliprange_value": 1.5, "vf_coef": 1.0},
        {"missing_eos_penalty": 2.0},
    ],
    ids=str,
)
def test_losses_and_coefficients_are_trls(given):
    for seed in range(3):
        _compare(PPOOptions(**given), seed)


def test_the_first_update_is_on_policy():
    case = _case()
    case["logps"], case["values"] = case["old"], case["old_values"]
    for one, other in zip(_ours(PPOOptions(), case), _theirs(PPOOptions(), case), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_metrics_sum_up_over_sequences():
    case, options = _case(), PPOOptions(missing_eos_penalty=0.5)
    algorithm, episodes = PPO(options), _episodes(case)
    metrics = algorithm.targets(episodes)[1].metrics
    divergence = float((episodes[1].logps - episodes[1].reference).sum())
    assert metrics["objective/kl"] == pytest.approx(divergence)
    assert metrics["objective/scores"] == case["scores"][1] - 0.5
    assert metrics["objective/rlhf_reward"] == pytest.approx(case["scores"][1] - 0.5 - 0.05 * divergence)
    same = algorithm.policy(episodes[0].logps, episodes[0].logps, np.ones(3), 3)
    assert same.metrics == {
        "policy/approxkl_avg": (0.0, 3.0),
        "policy/clipfrac_avg": (0.0, 3.0),
        "val/ratio": (3.0, 3.0),
    }


def test_a_ratio_beyond_its_limit_is_clamped_and_counted():
    far = PPO().policy(np.array([-1.0, -2.0]), np.array([-1.0, -40.0]), np.array([-1.0, -1.0]), 2)
    near = PPO().policy(np.array([-1.0, -2.0]), np.array([-1.0, -22.0]), np.array([-1.0, -1.0]), 2)
    assert (far.overflows, near.overflows) == (1, 0)
    np.testing.assert_array_equal(far.coefficients, near.coefficients)


def _reference_is_the_policy(options, case):
    return _ours(options, {**case, "reference": case["old"]})


def _k3_for_k1(options, case):
    return _ours(dataclasses.replace(options, kl_estimator="k3"), case)


def _old_is_the_policy(options, case):
    return _ours(options, {**case, "old": case["logps"]})


def _normaliser_of_positions(options, case):
    loss, by_logp, by_value = _ours(options, case)
    return loss, by_logp * sum(LENGTHS) / sum(map(_positions, LENGTHS)), by_value


@pytest.mark.parametrize(
    "planted",
    [_reference_is_the_policy, _k3_for_k1, _old_is_the_policy, _normaliser_of_positions],
    ids=lambda function: function.__name__,
)
def test_a_planted_error_is_caught(planted):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        _compare(PPOOptions(), ours=planted)


def test_whitening_without_bessels_correction_is_caught(monkeypatch):
    exact = ppo.whiten
    count = sum(LENGTHS)
    monkeypatch.setattr(ppo, "whiten", lambda values: [each * np.sqrt(count / (count - 1)) for each in exact(values)])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        _compare(PPOOptions())


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"kl_estimator": "k2"}, "kl_estimator is 'k2'; choose k1 or k3"),
        ({"kl_coef": -0.1}, "kl_coef is -0.1; give a finite number of at least 0"),
        ({"cliprange": -0.2}, "cliprange is -0.2; give a finite number of at least 0"),
        ({"cliprange_value": float("inf")}, "cliprange_value is inf; give a finite number of at least 0"),
        ({"vf_coef": -1.0}, "vf_coef is -1.0; give a finite number of at least 0"),
        ({"gamma": 1.1}, "gamma is 1.1; give a finite number of at least 0 and of at most 1"),
        ({"lam": -0.1}, "lam is -0.1; give a finite number of at least 0 and of at most 1"),
        ({"num_mini_batches": 0}, "num_mini_batches is 0; give a whole number of at least 1"),
        ({"value_model": "adapter"}, "value_model is 'adapter'; choose shared or own"),
        ({"num_ppo_epochs": 0}, "num_ppo_epochs is 0; give a whole number of at least 1"),
        ({"temperature": 0.0}, "temperature is 0.0; give a finite number above 0"),
        ({"missing_eos_penalty": 0.0}, "missing_eos_penalty is 0.0; give a finite number above 0"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(given, line):
    with pytest.raises(Error, match=line):
        PPOOptions(**given)
