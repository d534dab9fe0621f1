# SPDX-License-Identifier: Apache-2.0
"""Advantages from rewards against TRL's own code, in float64."""

import numpy as np
import pytest

from mebp import Error
from mebp.objectives.advantages import AdvantageOptions, EqualGroups, advantages
from mebp.objectives.groups import GRPOOptions
from support import trl_losses

SIZE = 4


def _rewards(functions=3):
    """Of three groups: one ordinary, one with rewards missing, one all equal."""
    rewards = np.random.default_rng(0).normal(size=(3 * SIZE, functions)).round(2)
    rewards[SIZE : SIZE + 2, 0] = np.nan
    rewards[SIZE + 1] = np.nan  # by every function
    rewards[2 * SIZE :] = 0.5
    return rewards


def _compare(rewards, ours=advantages, **options):
    options = AdvantageOptions(num_generations=SIZE, **options)
    output, metrics = trl_losses.grpo_batch(GRPOOptions(), options, rewards, [[2, 1]] * len(rewards))
    result = ours(rewards, options)
    np.testing.assert_allclose(result.values, output["advantages"].numpy(), rtol=1e-12, atol=1e-12)
    for name, value in result.metrics.items():
        np.testing.assert_allclose(value, metrics[name], rtol=1e-12, err_msg=name)
    return result


@pytest.mark.parametrize("scale", ["group", "batch", "none", True, False])
@pytest.mark.parametrize("weights", [None, [1.0, -0.5, 2.0]])
def test_every_scale_is_trls(scale, weights):
    result = _compare(_rewards(), scale_rewards=scale, reward_weights=weights)
    assert result.values[SIZE + 1] == 0.0
    assert result.equal_groups == 1


@pytest.mark.parametrize("weights", [None, [1.0, -0.5, 2.0]])
def test_each_reward_may_be_normalized_by_itself(weights):
    _compare(_rewards(), multi_objective_aggregation="normalize_then_sum", reward_weights=weights)


def test_a_group_with_one_reward_or_none_teaches_nothing():
    rewards = np.array([[1.0], [2.0], [3.0], [4.0], [1.0], [np.nan], [np.nan], [np.nan], *[[np.nan]] * 4])
    result = _compare(rewards)
    assert result.equal_groups == 2
    assert not result.values[SIZE:].any()


def _biased(rewards, options):
    """The deviation without Bessel's correction."""
    result = advantages(rewards, options)
    return type(result)(result.values * np.sqrt(SIZE / (SIZE - 1)), result.rewards, result.equal_groups)


def test_a_planted_error_is_caught():
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        _compare(_rewards(), ours=_biased)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"num_generations": 1}, "num_generations is 1; a group needs at least 2 completions of a prompt"),
        ({"scale_rewards": "all"}, "scale_rewards is 'all'; choose group, batch or none"),
        ({"multi_objective_aggregation": "sum"}, "multi_objective_aggregation is 'sum'; choose sum_then_normalize or"),
        ({"reward_weights": [float("inf")]}, "reward_weights is inf; give a finite number"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(given, line):
    with pytest.raises(Error, match=line):
        AdvantageOptions(**given)


def test_weights_and_groups_fit_the_rewards():
    with pytest.raises(Error, match="reward_weights has 2 numbers for 1 rewards; give one each"):
        advantages(np.zeros((8, 1)), AdvantageOptions(reward_weights=[1.0, 2.0]))
    with pytest.raises(Error, match="9 completions are no whole number of groups of 8; give 8 of each prompt"):
        advantages(np.zeros((9, 1)), AdvantageOptions())


def test_an_epoch_whose_groups_all_have_equal_rewards_is_refused():
    options = AdvantageOptions(num_generations=2)
    equal, some = (
        advantages(np.array([[1.0], [1.0]] * 2), options),
        advantages(np.array([[1.0], [1.0], [0.0], [1.0]]), options),
    )
    assert (equal.equal_groups, some.equal_groups) == (2, 1)
    groups = EqualGroups()
    for step in (equal, some):
        groups.add(step, 2)
    assert (groups.groups, groups.equal) == (4, 3)
    groups.end_epoch()
    groups.add(equal, 2)
    with pytest.raises(Error, match="all 2 groups of the epoch had equal rewards, so nothing was learned; check"):
        groups.end_epoch()
