# SPDX-License-Identifier: Apache-2.0
"""Median and range of a value that was measured several times, as tables show them."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Iterable[float]) -> "Spread":
        found = list(values)
        return Spread(statistics.median(found), min(found), max(found))

    def extent(self, digits: int = 2) -> str:
        return f"{self.low:.{digits}f} to {self.high:.{digits}f}"

    def describe(self) -> str:
        return f"{self.median:.2f} ({self.extent()})"
