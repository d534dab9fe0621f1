# SPDX-License-Identifier: Apache-2.0
"""What a start of Ray's workers makes of the options."""

import pytest

from mebp.ray.worker import options_of_start

_GOES_ON = {"resume": True, "overwrite": False}


@pytest.mark.parametrize(
    ("asked", "start", "has_stepped", "added"),
    [
        ({}, 0, False, {}),
        ({"overwrite": True}, 0, False, {}),
        ({"resume": True}, 0, False, {}),
        ({}, 1, False, _GOES_ON),
        ({}, 2, True, _GOES_ON),
        ({"resume": True}, 1, False, _GOES_ON),
        ({"overwrite": True}, 1, True, _GOES_ON),
        ({"overwrite": True}, 1, False, {}),  # an older run's state may still be there
    ],
)
def test_a_restart_goes_on_with_what_is_its_own(asked, start, has_stepped, added):
    given = {"steps": 7, **asked}
    assert options_of_start(given, start, has_stepped) == {**given, **added}
