# SPDX-License-Identifier: Apache-2.0
"""How pairs are run, by their lengths and by the memory that there is."""

import pytest

from mebp.training.objectives.pair_ways import (
    CHOSEN,
    DEFERRED,
    INTERLEAVED,
    REJECTED,
    SCORED_FIRST,
    choose_way,
    gradient_bytes,
    padding_share,
)

ALIKE, UNLIKE = [(30, 30), (20, 22)], [(30, 60), (20, 22)]
GIVEN = {
    "needs_batch": False,
    "rows": 1,
    "lengths": ALIKE,
    "several": False,
    "has_room": True,
    "waiting": 4_900_000,
    "waits": CHOSEN,
}


@pytest.mark.parametrize(
    ("changes", "name", "room", "reason"),
    [
        ({}, DEFERRED, 0, "the chosen completion's gradient waits for the pair's coefficient in the 4.9 MB where"),
        ({"waits": REJECTED}, DEFERRED, 0, "the rejected completion's gradient waits for the pair's coefficient"),
        ({"several": True}, DEFERRED, 4_900_000, "in 4.9 MB of its own"),
        ({"several": True, "has_room": False}, SCORED_FIRST, 0, "the budget has no 4.9 MB"),
        ({"rows": 2}, INTERLEAVED, 0, "up to 30 tokens each, 2% padding"),
        ({"rows": 2, "several": True, "has_room": False}, INTERLEAVED, 0, "side by side"),
        ({"rows": 2, "lengths": UNLIKE}, DEFERRED, 0, "where the step's is summed"),
        ({"rows": 4, "lengths": UNLIKE, "several": True}, DEFERRED, 4_900_000, "of its own"),
        ({"rows": 2, "needs_batch": True}, SCORED_FIRST, 0, "the loss needs all pairs of a step"),
    ],
)
def test_ways(changes, name, room, reason):
    way = choose_way(**(GIVEN | changes))
    assert (way.name, way.room) == (name, room) and reason in way.reason
    assert str(way) == f"pairs: {name}: {way.reason}"


def test_what_they_are_chosen_by():
    assert padding_share([(10, 10)]) == 0 and padding_share([(10, 30)]) == 0.5
    assert gradient_bytes({"trainables": [{"rows": 8, "columns": 96}, {"rows": 3, "columns": 3}]}) == 3072 + 64
