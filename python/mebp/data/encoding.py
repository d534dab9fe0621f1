# SPDX-License-Identifier: Apache-2.0
"""Many texts to tokens, fast and in little memory: several threads, and no word twice."""

from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from mebp.data.cuts import BLOCK, Cuts
from mebp.tokenizer import Tokenizer, begun

_KNOWN = 1 << 17  # parts of texts whose tokens are kept
_LONG = 64  # characters; a longer part hardly comes twice
_TOGETHER = 1 << 17  # characters that the tokenizer is given at once


class Encoder:
    """A tokenizer for many texts: the tokens are the same, and all that it does not have is the tokenizer's own.

    Texts are cut where that changes no token (cuts.py). Words repeat, so most parts have been made tokens of before.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._cuts = Cuts.of(tokenizer.backend)
        # Of a part int32 ids, and behind them, in the second one, int32 characters [start, end) that they stand for.
        self._known = {False: _Known(), True: _Known()}
        self._ready: dict[str, list[int]] = {}
        self._placed: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._tokenizer, name)

    def prepare(self, texts: Sequence[str], with_places: bool = False) -> None:
        """Encodes texts of which `encode` or, with places, `encode_with_offsets` is asked for next."""
        self._ready, self._placed = {}, {}
        texts = list(dict.fromkeys(texts))
        if with_places:
            self._placed = dict(zip(texts, self._with_places(texts), strict=True))
        else:
            self._ready = {text: ids.tolist() for text, ids in zip(texts, self.arrays(texts), strict=True)}

    def encode(self, text: str) -> list[int]:
        """As Tokenizer.encode."""
        return self._ready[text] if text in self._ready else self.arrays([text])[0].tolist()

    def encode_document(self, text: str) -> list[int]:
        """As Tokenizer.encode_document."""
        return begun(self.encode(text), self._tokenizer.before_text)

    def encode_with_offsets(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """As Tokenizer.encode_with_offsets, in arrays."""
        return self._placed[text] if text in self._placed else self._with_places([text])[0]

    def arrays(self, texts: Sequence[str], begins: bool = True) -> list[np.ndarray]:
        """int32 ids of each text; without `begins`, of texts that go on where a block has ended."""
        found = self._parts([self._cuts.split(text, begins)[0] for text in texts], with_places=False)
        return [np.frombuffer(b"".join(parts), np.int32) for parts in found]

    def blocks(self, parts: Iterator[str]) -> Iterator[np.ndarray]:
        """int32 ids of a text that comes in parts, a block after the other."""
        for index, block in enumerate(self._cuts.blocks(parts)):
            yield self.arrays([block], begins=index == 0)[0]

    def long(self, text: str) -> Iterator[np.ndarray]:
        """The same of a whole text."""
        return self.blocks(text[start : start + BLOCK] for start in range(0, max(len(text), 1), BLOCK))

    def _with_places(self, texts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        cuts = self._cuts if self._cuts.places else Cuts(None)
        encoded, split = [], [cuts.split(text) for text in texts]
        every = self._parts([parts for parts, _ in split], with_places=True)
        for (parts, alone), found in zip(split, every, strict=True):
            columns = np.frombuffer(b"".join(found), np.int32).reshape(-1, 3)
            tokens = np.fromiter(map(len, found), np.int64, len(found)) // (3 * columns.itemsize)
            lengths = np.fromiter(map(len, parts), np.int64, len(parts)) + 1  # with the space before each
            lengths[alone] -= 2  # a mark is no character of the text
            begins = np.cumsum(lengths) - lengths
            encoded.append((columns[:, 0], columns[:, 1:] + np.repeat(begins, tokens)[:, None]))
        return encoded

    def _parts(self, split: Sequence[Sequence[str]], with_places: bool) -> Iterator[list[bytes]]:
        """What is known of the parts of each text, which are made tokens of where they are new."""
        known = self._known[with_places]
        if len(known) > _KNOWN:
            known.clear()
        known.others = {}
        new = [part for part in set().union(*split) if part not in known]
        for together in _batches(new):
            for part, tokens in zip(together, self._encoded(together, with_places), strict=True):
                (known.others if len(part) > _LONG else known)[part] = tokens
        return (list(map(known.__getitem__, parts)) for parts in split)

    def _encoded(self, parts: Sequence[str], with_places: bool) -> Iterator[bytes]:
        given = self._cuts.given(parts)
        if not with_places:
            yield from (array("i", ids).tobytes() for ids in self._tokenizer.encode_together(given))
            return
        for ids, places in self._tokenizer.encode_together_with_offsets(given):
            columns = np.empty((len(ids), 3), np.int32)
            columns[:, 0] = ids
            columns[:, 1:] = np.array(places, np.int32).reshape(-1, 2)
            yield columns.tobytes()


class _Known(dict[str, bytes]):
    """What is kept of parts, and for a moment what is not."""

    others: dict[str, bytes]

    def __missing__(self, part: str) -> bytes:
        return self.others[part]


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch, size = [], 0
    for text in texts:
        if batch and size + len(text) > _TOGETHER:
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch
