# SPDX-License-Identifier: Apache-2.0
"""Checks of the numbers that callers hand in."""

import math
import operator

from mebp.errors import Error

LARGEST_SCORE = 1e30  # of rewards and advantages: float32 has room for its products with what a loss is made of


def as_float(value: object) -> float | None:
    """Infinity for an integer beyond all floats, and None for what is not a number."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


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
