# SPDX-License-Identifier: Apache-2.0
"""Rows of tokens with their labels, their order, and batches of them."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.mixing import Mix, order_of_epoch


@dataclass(frozen=True)
class Row:
    """One sequence: int32 ids [length], and labels [length] as in transformers (-100 does not count).

    starts: int32 [length], of each token the position where its sample starts; None: the row is one sample.
    shift: how far before its label a token is predicted: 1, or 0 of encoders.
    weights: float32 [length], what each label is multiplied by, 0 where none counts; None: 1.
    """

    ids: np.ndarray
    labels: np.ndarray
    starts: np.ndarray | None = None
    shift: int = 1
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def counted(self) -> int:
        """Labels that count; nothing predicts the first token as the next one."""
        return int(np.count_nonzero(self.labels[self.shift :] != IGNORED_LABEL))


@dataclass(frozen=True)
class Totals:
    """Of all rows of a dataset."""

    tokens: int
    counted: int
    digest: str

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Totals":
        tokens, counted, digest = 0, 0, hashlib.sha256()
        for row in rows:
            tokens, counted = tokens + len(row), counted + row.counted
            digest.update(len(row).to_bytes(4, "little"))
            digest.update(row.ids.tobytes())
            digest.update(row.labels.tobytes())
            for more in (row.starts, row.weights):
                if more is not None:
                    digest.update(more.tobytes())
        return cls(tokens, counted, digest.hexdigest())


@dataclass(frozen=True)
class Dataset:
    """Rows up to one length, each with at least one label that counts."""

    rows: Sequence[Row]
    padding: int  # fills up a shorter row within a batch; its labels do not count
    notes: Sequence[str] = ()  # what was cut or left out, a line each
    samples: int | None = None  # that were packed into the rows; None: each row is one, or text without any
    known: Totals | None = None  # of the rows, where somebody has seen them all
    mix: Mix | None = None  # of several sources
    weighted: bool = False  # whether rows have weights

    @cached_property
    def totals(self) -> Totals:
        return self.known or Totals.of(self.rows)

    @property
    def tokens(self) -> int:
        return self.totals.tokens

    @property
    def counted(self) -> int:
        """Labels that count in all rows."""
        return self.totals.counted

    @property
    def digest(self) -> str:
        """Of what is trained on, not of the file: a resumed run must see the same tokens and labels."""
        return self.totals.digest

    def steps_per_epoch(self, rows_per_step: int) -> int:
        return steps_per_epoch(self.mix or len(self.rows), rows_per_step)

    def rows_of_step(self, step: int, rows_per_step: int, seed: int) -> np.ndarray:
        return rows_of_step(self.mix or len(self.rows), step, rows_per_step, seed)

    def step_batches(
        self, step: int, batch: int, accumulate: int, seed: int, change: Callable[[Row, int], Row] | None = None
    ) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray] | None]:
        """Ids, labels and starts of a step, counted from 0: up to `accumulate` arrays of each, [up to batch, length].

        rows_of_step says which rows, which `change` may make others of, by their number. Without packed samples there
        are no starts.
        """
        chosen = self.rows_of_step(step, batch * accumulate, seed)
        rows = [change(self.rows[index], index) if change else self.rows[index] for index in chosen]
        batches = [self._pad(rows[start : start + batch]) for start in range(0, len(rows), batch)]
        ids, labels, starts = (list(each) for each in zip(*batches, strict=True))
        return ids, labels, None if starts[0] is None else starts

    def padded(self, indices: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Ids, labels and starts [len(indices), length of the longest] of these rows, padded at the end.

        Padding is a sample of its own. Without packed samples there are no starts.
        """
        return self._pad([self.rows[index] for index in indices])

    def weights_of(self, indices: Sequence[int]) -> np.ndarray:
        """float32 [len(indices), length of the longest], what the labels of these rows are multiplied by."""
        rows = [self.rows[index] for index in indices]
        weights = np.zeros((len(rows), max(len(row) for row in rows)), np.float32)
        for index, row in enumerate(rows):
            weights[index, : len(row)] = row.labels != IGNORED_LABEL if row.weights is None else row.weights
        return weights

    def _pad(self, rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        shape = (len(rows), max(len(row) for row in rows))
        ids = np.full(shape, self.padding, dtype=np.int32)
        labels = np.full(shape, IGNORED_LABEL, dtype=np.int32)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row.ids
            labels[index, : len(row)] = row.labels
        if self.samples is None:
            return ids, labels, None
        starts = np.empty(shape, dtype=np.int32)
        for index, row in enumerate(rows):
            starts[index, : len(row)] = 0 if row.starts is None else row.starts  # text beside samples is one
            starts[index, len(row) :] = len(row)
        return ids, labels, starts


def steps_per_epoch(rows: int | Mix, rows_per_step: int) -> int:
    return -(-(rows.total if isinstance(rows, Mix) else rows) // rows_per_step)


def rows_of_step(rows: int | Mix, step: int, rows_per_step: int, seed: int) -> np.ndarray:
    """Which of so many rows a step takes, counted from 0.

    Each epoch is a permutation that depends on the seed and the epoch alone, so a step number says where the data
    stands. An epoch's last step may have fewer rows.
    """
    epoch, position = divmod(step, steps_per_epoch(rows, rows_per_step))
    order = order_of_epoch(rows, epoch, seed)
    return order[position * rows_per_step : (position + 1) * rows_per_step]
