# SPDX-License-Identifier: Apache-2.0
import math
import re

import pytest

from mebp.errors import Error
from mebp.judging.gates import check_figures, read_gate

NAMES = ("right", "forgets")


def test_conditions_hold_or_fail_by_themselves():
    gate = read_gate("right>=0.9, forgets < 2e-2,forgets>-1", NAMES)
    assert [str(each) for each in gate] == ["right>=0.9", "forgets<0.02", "forgets>-1"]
    assert [each.holds({"right": 0.9, "forgets": 0.02}) for each in gate] == [True, False, True]
    assert not any(each.holds({"right": math.nan, "forgets": math.nan}) for each in gate)


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ("", "'' is not a condition; give one such as right>=0.9"),
        ("right", "'right' is not a condition; give one such as right>=0.9"),
        ("right>=0.9,", "'' is not a condition; give one such as right>=0.9"),
        ("right>=0.9 and forgets<1", "'right>=0.9 and forgets<1' is not a condition"),
        ("wrong<=0.1", "'wrong' is not a figure; choose right or forgets"),
        ("right=0.9", "'=' is not a comparison; choose >=, <=, > or <"),
        ("right=>0.9", "'=>' is not a comparison; choose >=, <=, > or <"),
        ("right>=most", "'most' is not a number; give one such as 0.9"),
        ("right>=nan", "'nan' is not a number; give one such as 0.9"),
        ("right>=90%", "'90%' is not a number; give one such as 0.9"),
    ],
)
def test_what_is_no_gate_is_refused(written, line):
    with pytest.raises(Error, match=re.escape(f"--gate '{written}': {line}")):
        read_gate(written, NAMES)


def test_a_condition_on_what_is_not_measured_is_refused():
    gate = read_gate("right>0", NAMES)
    check_figures(gate, {"forgets": "it is not there"})
    with pytest.raises(Error, match=re.escape("--gate right>0: nothing is right")):
        check_figures(gate, {"right": "nothing is right"})
