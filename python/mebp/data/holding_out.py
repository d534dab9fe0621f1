# SPDX-License-Identifier: Apache-2.0
"""Samples that are measured on instead of trained on: which ones depends on the seed and on what is in them alone."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mebp.data.dataset import Dataset, Row

SHARE = 0.05  # where nobody names one
FROM = 40  # samples; of fewer none is held out unless asked for
_LEAST = 8  # fewer tell nothing


@dataclass(frozen=True)
class HoldOut:
    """As `--val-split` asks for it, or as a run does that nobody has told."""

    share: float
    seed: int
    least_samples: int = 0  # of fewer than these none is held out

    def counts(self, sizes: Sequence[int]) -> list[int]:
        """How many samples of each source, of which each keeps at least one."""
        total = sum(sizes)
        if total < self.least_samples:
            return [0] * len(sizes)
        wanted = max(_LEAST if total >= FROM else 1, round(self.share * total))
        shares = np.diff(np.round(np.cumsum([0, *sizes]) * (wanted / max(total, 1)))).astype(int)
        return [max(0, min(int(share), size - 1)) for share, size in zip(shares, sizes, strict=True)]


@dataclass(frozen=True)
class Part:
    """Of a source's samples those that are held out, or the others."""

    count: int  # held out
    seed: int
    held: bool

    @property
    def name(self) -> str:
        return f"{'held' if self.held else 'without'}-{self.count}-{self.seed}"

    def of(self, rows: Iterable[Row]) -> np.ndarray:
        """Which of these rows are in it. Rows that are alike stay together, so that none is trained on and measured."""
        keys = np.fromiter((_key(row, self.seed) for row in rows), np.uint64)
        _, group, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        held, left = np.zeros(len(sizes), bool), self.count
        for index, size in enumerate(sizes):  # keys are as good as drawn, so their order is
            if not left:
                break
            if size <= left:
                held[index] = True
                left -= size
        return held[group] == self.held


def _key(row: Row, seed: int) -> int:
    digest = hashlib.blake2b(row.ids.tobytes(), digest_size=8, key=seed.to_bytes(8, "little"))
    digest.update(row.labels.tobytes())
    return int.from_bytes(digest.digest(), "little")


def take_part(data: Dataset, part: Part) -> Dataset:
    """Of rows that are one sample each."""
    rows = [data.rows[index] for index in np.flatnonzero(part.of(data.rows))]
    return replace(data, rows=rows, samples=None if data.samples is None else len(rows), known=None)
