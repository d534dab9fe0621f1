# SPDX-License-Identifier: Apache-2.0
"""Text that a tokenizer does not know: a model learns nothing of it."""

from collections.abc import Iterable, Sequence

import numpy as np

from mebp.tokenizer import Tokenizer

_TOO_MANY = 0.1  # of the tokens; names and rare words alone are fewer


class Unknown:
    """Counts the tokens that stand for unknown text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._id = tokenizer.unknown
        self._seen = self._found = 0

    def see(self, ids: np.ndarray | Sequence[int]) -> None:
        if self._id is not None:
            self._seen += len(ids)
            self._found += int(np.count_nonzero(np.asarray(ids) == self._id))

    def notes(self) -> list[str]:
        """A line where there are many."""
        if self._found <= _TOO_MANY * self._seen:
            return []
        return [f"the model's tokenizer does not know {100 * self._found / self._seen:.0f} % of its tokens"]


def unknown_notes(path: object, tokenizer: Tokenizer, parts: Iterable[np.ndarray | Sequence[int]]) -> list[str]:
    """The notes of a file whose tokens are these."""
    unknown = Unknown(tokenizer)
    for ids in parts:
        unknown.see(ids)
    return [f"{path}: {note}" for note in unknown.notes()]
