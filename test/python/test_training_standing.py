# SPDX-License-Identifier: Apache-2.0
"""Which evaluation was the best, and which losses are an explosion."""

import json
import math

import pytest

from mebp.training.standing import Standing

VOCABULARY = 49152  # whose logarithm is 10.8


@pytest.mark.parametrize(
    ("losses", "exploded"),
    [
        ([3.0, 40.0], True),
        ([3.0, 3.0, 3.0, 40.0], False),  # one odd batch
        ([3.0, 3.0, 40.0, 40.0, 3.0], True),
        ([3.0, 40.0, 40.0, 3.0, 3.0], False),  # it came back
        ([3.0, 11.0, 11.0, 11.0], False),  # as bad as guessing: within the margin
        ([15.0, 14.0, 15.5], False),  # that is how it began
        ([40.0], False),
        ([], False),
    ],
)
def test_explosions(losses, exploded):
    standing = Standing()
    for loss in losses:
        standing.step(loss)
    assert standing.has_exploded(VOCABULARY) is exploded
    assert 10 < math.log(VOCABULARY) < 11


def test_the_best_is_the_first_of_the_lowest():
    standing = Standing()
    assert [standing.evaluate(step, loss) for step, loss in enumerate([3.0, 2.0, 2.0, 2.5], start=1)] == [
        True, True, False, False]  # fmt: skip
    assert (standing.best_step, standing.best_loss, standing.misses, standing.evaluated) == (2, 2.0, 2, 4)


def test_it_travels_as_json():
    standing = Standing()
    standing.step(3.0)
    standing.step(40.0)
    standing.evaluate(2, 5.0)
    assert Standing.restored(json.loads(json.dumps(standing.stored()))) == standing
    assert Standing.restored(None) == Standing()  # of a state that was saved before there were any


@pytest.mark.parametrize(
    "stored",
    [
        "high",
        [],
        {"first_loss": "3"},
        {"first_loss": True},
        {"first_loss": 10**400},
        {"recent_losses": 3.0},
        {"recent_losses": [3.0, None]},
        {"recent_losses": ["3"]},
        {"evaluated": 1.5},
        {"evaluated": -1},
        {"best_step": "2"},
        {"best_step": 10**400},
        {"best_loss": []},
        {"misses": None},
        {"misses": True},
    ],
    ids=repr,
)
def test_what_no_run_stores_is_refused(stored):
    with pytest.raises(ValueError):
        Standing.restored(stored)
