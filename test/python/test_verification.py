# SPDX-License-Identifier: Apache-2.0
"""How far gradients may be from float64's."""

import math

import numpy as np
import pytest

from mebp.verification.comparison import Comparison, Errors, Gradients, relative_error


def comparison(
    precision: str, found: list[float], torch: list[float], loss: float = 0.0, torch_loss: float = 0.0
) -> Comparison:
    return Comparison(
        Errors(loss, {f"g{i}": error for i, error in enumerate(found)}),
        Errors(torch_loss, {f"g{i}": error for i, error in enumerate(torch)}),
        precision,
    )


def test_an_error_is_relative_to_the_exact_norm():
    assert relative_error(np.array([3.0, 4.5]), np.array([3.0, 4.0])) == pytest.approx(0.1)
    assert relative_error(2.0, -4.0) == pytest.approx(1.5)
    assert relative_error(np.array([0.0]), np.array([0.0])) == 0
    assert relative_error(np.array([0.25]), np.array([0.0])) == math.inf


def test_errors_are_of_the_loss_and_of_each_gradient():
    exact = Gradients(2.0, {"a": np.array([1.0]), "b": np.array([[2.0], [0.0]])})
    errors = Errors.of(Gradients(2.5, {"b": np.array([[2.0], [1.0]]), "a": np.array([1.0])}), exact)
    assert (errors.loss, errors.gradients, errors.worst) == (0.25, {"a": 0.0, "b": 0.5}, 0.5)
    assert errors.norms == pytest.approx({"a": 0.4**0.5, "b": 1.6**0.5})


def test_a_gradient_that_is_next_to_nothing_weighs_less():
    """As that of a key's bias, which is the rounding of what cancels."""
    exact = {f"g{i}": np.array([1.0]) for i in range(4)} | {"small": np.array([1e-4]), "zero": np.array([0.0])}
    found = {f"g{i}": np.array([1.1]) for i in range(4)} | {"small": np.array([3e-4]), "zero": np.array([0.0])}
    errors = Errors.of(Gradients(1.0, found), Gradients(1.0, exact))
    assert errors.worst == pytest.approx(2.0) and errors.weighted.worst == pytest.approx(0.1)
    assert errors.weighted.gradients["small"] == pytest.approx(2.0 * 1e-2 / (4 / 6) ** 0.5)
    wrong = Errors.of(Gradients(1.0, found | {"zero": np.array([1e-9])}), Gradients(1.0, exact))
    assert wrong.weighted.worst == math.inf
    nan = Errors.of(Gradients(1.0, found | {"small": np.array([math.nan])}), Gradients(1.0, exact))
    assert math.isnan(nan.weighted.worst)


@pytest.mark.parametrize(
    "error, torch, agrees",
    [(1.9e-5, 0.0, True), (2.1e-5, 0.0, False), (2.1e-5, 1.1e-5, True), (2.3e-5, 1.1e-5, False), (math.nan, 1, False)],
)
def test_f32_is_judged_gradient_by_gradient(error, torch, agrees):
    found = comparison("f32", [0.0, error], [1.0, torch])
    assert found.agrees == agrees
    assert [one.name for one in found.beyond] == ([] if agrees else ["g1"])


def test_the_loss_is_judged_too():
    assert [one.name for one in comparison("f32", [0.0], [1.0], loss=2.1e-5).beyond] == ["the loss"]
    assert [one.name for one in comparison("bf16", [0.0], [1e-3], loss=5.1e-5).beyond] == ["the loss"]
    assert comparison("bf16", [0.0], [1e-3], loss=4.9e-5).agrees
    assert comparison("bf16", [0.0], [1e-3], loss=5.1e-5, torch_loss=5.2e-5).agrees


def test_bf16_is_judged_by_median_tail_and_worst():
    torch = [1e-2] * 50 + [2e-2] * 50
    median, tail = 1.5e-2, 2e-2
    assert comparison("bf16", [1.09 * median] * 93 + [1.39 * tail] * 6 + [3.9 * tail], torch).agrees
    assert [one.name for one in comparison("bf16", [1.11 * median] * 100, torch).beyond] == ["the gradients' median"]
    found = comparison("bf16", [1e-2] * 93 + [1.41 * tail] * 7, torch)
    assert [one.name for one in found.beyond] == ["the gradients' 95th percentile"]
    found = comparison("bf16", [1e-2] * 99 + [4.1 * tail], torch)
    assert [one.name for one in found.beyond] == ["the worst gradient"]
    assert not comparison("bf16", [1e-2] * 99 + [math.nan], torch).agrees


def test_exact_gradients_do_not_count_for_the_median():
    """As those of A are while B is zero."""
    assert comparison("bf16", [0, 0, 0, 1.5e-2, 2.5e-2], [0, 0, 0, 2e-2, 2e-2]).agrees
    assert comparison("bf16", [0.0], [0.0]).agrees
    assert [one.name for one in comparison("bf16", [1e-3], [0.0]).beyond] == [
        "the gradients' median",
        "the gradients' 95th percentile",
        "the worst gradient",
    ]


def test_the_furthest_comes_first():
    found = comparison("f32", [3e-5, 9e-5, 1.0, math.nan], [0.0, 0.0, 0.4, 0.0])
    assert [str(one) for one in found.beyond] == [
        "g3: nan off, at most 2.0e-05",
        "g1: 9.0e-05 off, at most 2.0e-05",
        "g0: 3.0e-05 off, at most 2.0e-05",
        "g2: 1.0e+00 off, at most 8.0e-01",
    ]
