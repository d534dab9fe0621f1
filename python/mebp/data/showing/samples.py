# SPDX-License-Identifier: Apache-2.0
"""What training sees of each sample of a file, what of it counts and what is cut.

Ids and labels are those of the rows of load_dataset, which training takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Dataset, Row
from mebp.data.loading import load_dataset
from mebp.data.sharing import SharedRows, Sharing
from mebp.data.sources import Source
from mebp.data.store import Spans, Tokens
from mebp.tokenizer import Tokenizer

SEEN, COUNTS, CUT = "seen", "counts", "cut"


@dataclass(frozen=True)
class Piece:
    """Tokens side by side with which the same is done."""

    text: str
    kind: str  # SEEN, COUNTS or CUT
    tokens: int
    weight: float = 1.0  # of what counts


@dataclass(frozen=True)
class Sample:
    """ids: int32, of all of it; labels: of the part that is trained on, which may be shorter, as transformers has them;
    weights: likewise, or None."""

    number: int  # from 1, among the samples that are not marked as not to be learned
    ids: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None
    row: int | None  # from 1; None where it is left out, for nothing counts
    pieces: Sequence[Piece]

    @property
    def counted(self) -> int:
        return sum(piece.tokens for piece in self.pieces if piece.kind == COUNTS)

    @property
    def cut(self) -> int:
        return len(self.ids) - len(self.labels)


class Samples:
    """Of a file, in rows of up to `length` tokens."""

    def __init__(self, source: Source, tokenizer: Tokenizer, length: int, sharing: Sharing | None) -> None:
        """Raises mebp.Error as load_dataset does."""
        self._tokenizer, self._length = tokenizer, length
        self.data: Dataset = load_dataset(source, tokenizer, length, sharing)
        rows = self.data.rows
        self._spans: Spans = rows.samples if isinstance(rows, SharedRows) else rows
        self._tokens: Tokens = self._spans.tokens
        self.shares_rows = isinstance(rows, SharedRows)

    @property
    def is_text(self) -> bool:
        """Whether the samples are rows of text."""
        return self._tokens.about.kind == "text"

    def __len__(self) -> int:
        return len(self._spans if self.is_text else self._tokens.lengths)

    @property
    def cut(self) -> int:
        """Tokens beyond the row length."""
        return 0 if self.is_text else int(np.maximum(self._tokens.lengths - self._length, 0).sum())

    def first(self, count: int) -> list[Sample]:
        return [self._sample(index) for index in range(min(count, len(self)))]

    def _sample(self, index: int) -> Sample:
        begin = int(self._spans.begins[index] if self.is_text else self._tokens.bounds[index])
        end = int(self._spans.ends[index] if self.is_text else self._tokens.bounds[index + 1])
        ids = self._tokens.ids[begin:end]
        place = int(np.searchsorted(self._spans.begins, begin))
        if place < len(self._spans) and self._spans.begins[place] == begin:
            part, row = self._in_row(place)
        else:  # nothing of it is learned, so it is in no row
            stop = min(len(ids), self._length)
            part, row = Row(ids[:stop], np.full(stop, IGNORED_LABEL, np.int32)), None
        return Sample(index + 1, ids, part.labels, part.weights, row, self._pieces(ids, part))

    def _in_row(self, place: int) -> tuple[Row, int]:
        """A sample as it stands in its row, and the row's number."""
        if not self.shares_rows:
            return self.data.rows[place], place + 1
        number, start = self._places[place]
        row = self.data.rows[number]
        part = slice(start, start + len(self._spans[place]))
        return Row(row.ids[part], row.labels[part]), number + 1

    @cached_property
    def _places(self) -> dict[int, tuple[int, int]]:
        """In which row each sample is, and where it starts there."""
        rows, lengths = self.data.rows, self._spans.ends - self._spans.begins
        found = {}
        for number, (begin, end) in enumerate(pairwise(rows.bounds.tolist())):
            start = 0
            for member in rows.members[begin:end].tolist():
                found[member] = number, start
                start += int(lengths[member])
        return found

    def _pieces(self, ids: np.ndarray, part: Row) -> list[Piece]:
        weights = np.zeros(len(ids))
        weights[: len(part)] = part.labels != IGNORED_LABEL if part.weights is None else part.weights
        weights[:1] = 0  # nothing predicts the first token
        weights[len(part) :] = -1
        bounds = [0, *(np.flatnonzero(np.diff(weights)) + 1).tolist(), len(ids)]
        texts = _texts(self._tokenizer, ids, bounds)
        return [
            Piece(text, _kind(weights[begin]), end - begin, max(float(weights[begin]), 0.0) or 1.0)
            for text, (begin, end) in zip(texts, pairwise(bounds), strict=True)
            if end > begin
        ]


def _kind(weight: float) -> str:
    return CUT if weight < 0 else COUNTS if weight else SEEN


def _texts(tokenizer: Tokenizer, ids: np.ndarray, bounds: Sequence[int]) -> list[str]:
    """The text of the tokens between bounds; a character that reaches over one belongs to what is behind it."""

    def decode(part: np.ndarray) -> str:
        return tokenizer.backend.decode(part.tolist(), skip_special_tokens=False)

    whole = decode(ids)
    ends = [_alike(whole, decode(ids[:bound])) for bound in bounds[1:-1]]
    return [whole[begin:end] for begin, end in pairwise([0, *ends, len(whole)])]


def _alike(whole: str, begun: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(whole, begun, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(whole), len(begun)))
