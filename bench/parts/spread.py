# SPDX-License-Identifier: Apache-2.0
"""What became of a value that was measured several times, as tables have it."""

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

    def describe(self, digits: int = 2) -> str:
        return f"{self.median:.{digits}f} ({self.extent(digits)})"
