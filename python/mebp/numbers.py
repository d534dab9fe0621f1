# SPDX-License-Identifier: Apache-2.0
"""Checks of the numbers that callers hand in."""

import math
import operator

from mebp.errors import Error


def whole_number(name: str, value: object, at_least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = at_least - 1
    if number < at_least:
        raise Error(f"{name} is {value}; give a whole number of at least {at_least}")
    return number


def check_not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise Error(f"{name} is {value}; give a finite number of at least 0")
