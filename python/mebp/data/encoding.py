# SPDX-License-Identifier: Apache-2.0
"""Many texts to tokens, fast and in little memory: several threads, and no word twice."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise

import numpy as np

from mebp.data.cuts import BLOCK, Cuts
from mebp.tokenizer import Tokenizer

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
        self._placed: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(self._tokenizer, name)

    def prepare(self, texts: Sequence[str]) -> None:
        """Encodes texts of which `encode_with_offsets` is asked for next."""
        texts = list(dict.fromkeys(texts))
        self._placed = dict(zip(texts, self._with_places(texts), strict=True))

    def encode_with_offsets(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """As Tokenizer.encode_with_offsets, in arrays."""
        return self._placed[text] if text in self._placed else self._with_places([text])[0]

    def arrays(self, texts: Sequence[str], begins: bool = True) -> list[np.ndarray]:
        """int32 ids of each text; without `begins`, of texts that go on where a block has ended."""
        return self._ids([self._cuts.split(text, begins)[0] for text in texts])

    def begun_and_whole(self, begun: Sequence[str], more: Sequence[str]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """int32 ids of each text as it begins, and of the whole, which goes on with `more`."""
        begins = [self._cuts.split(text)[0] for text in begun]
        whole = [self._cuts.split_on(*each) for each in zip(begins, more, strict=True)]
        ids = self._ids(begins + whole)
        return ids[: len(begins)], ids[len(begins) :]

    def blocks(self, parts: Iterator[str]) -> Iterator[np.ndarray]:
        """int32 ids of a text that comes in parts, a block after the other."""
        for index, block in enumerate(self._cuts.blocks(parts)):
            yield self.arrays([block], begins=index == 0)[0]

    def long(self, text: str) -> Iterator[np.ndarray]:
        """The same of a whole text."""
        return self.blocks(text[start : start + BLOCK] for start in range(0, max(len(text), 1), BLOCK))

    def _with_places(self, texts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        cuts = self._cuts if self._cuts.places else Cuts(None)
        split = [cuts.split(text) for text in texts]
        every = self._found([parts for parts, _ in split], with_places=True)
        columns = np.frombuffer(b"".join(chain.from_iterable(every)), np.int32).reshape(-1, 3)
        first = np.cumsum([0, *map(len, every)])  # part of each text
        tokens = np.fromiter(map(len, chain.from_iterable(every)), np.int64, first[-1]) // (3 * columns.itemsize)
        parts = chain.from_iterable(parts for parts, _ in split)
        lengths = np.fromiter(map(len, parts), np.int64, first[-1]) + 1  # with the space before each
        alone = [first[index] + place for index, (_, places) in enumerate(split) for place in places]
        lengths[alone] -= 2  # a mark is no character of the text
        begins = np.append(0, np.cumsum(lengths))
        begins = begins[:-1] - np.repeat(begins[first[:-1]], np.diff(first))
        places = columns[:, 1:] + np.repeat(begins.astype(np.int32), tokens)[:, None]
        ids, bounds = np.ascontiguousarray(columns[:, 0]), np.append(0, np.cumsum(tokens))[first].tolist()
        return [(ids[start:end], places[start:end]) for start, end in pairwise(bounds)]

    def _ids(self, split: Sequence[Sequence[str]]) -> list[np.ndarray]:
        return [np.frombuffer(b"".join(found), np.int32) for found in self._found(split, with_places=False)]

    def _found(self, split: Sequence[Sequence[str]], with_places: bool) -> list[list[bytes]]:
        """What is known of the parts of each text, which are made tokens of where they are new."""
        known = self._known[with_places]
        known.forget_others()
        found, incomplete = [], []
        for parts in split:
            before = len(known.missing)
            found.append(list(map(known.__getitem__, parts)))
            if len(known.missing) > before:
                incomplete.append(len(found) - 1)
        for together in _batches(dict.fromkeys(known.missing)):
            for part, tokens in zip(together, self._encoded(together, with_places), strict=True):
                known.keep(part, tokens)
        for index in incomplete:
            found[index] = list(map(known.__getitem__, split[index]))
        return found

    def _encoded(self, parts: Sequence[str], with_places: bool) -> Iterator[bytes]:
        given = self._cuts.given(parts)
        if not with_places:
            yield from (array("i", ids).tobytes() for ids in self._tokenizer.encode_together(given))
            return
        encoded = self._tokenizer.encode_together_with_offsets(given)
        counts = [len(ids) for ids, _ in encoded]
        columns = np.empty((sum(counts), 3), np.int32)
        columns[:, 0] = np.fromiter(chain.from_iterable(ids for ids, _ in encoded), np.int32, len(columns))
        places = chain.from_iterable(chain.from_iterable(places for _, places in encoded))
        columns[:, 1:] = np.fromiter(places, np.int32, 2 * len(columns)).reshape(-1, 2)
        ends = list(accumulate(counts))
        yield from (columns[end - count : end].tobytes() for end, count in zip(ends, counts, strict=True))


class _Known(dict[str, bytes]):
    """What is kept of parts, and for a moment what is not."""

    def __init__(self) -> None:
        super().__init__()
        self.missing: list[str] = []
        self._others: dict[str, bytes] = {}

    def __missing__(self, part: str) -> bytes:
        if part not in self._others:
            self.missing.append(part)
        return self._others.get(part, b"")

    def keep(self, part: str, tokens: bytes) -> None:
        (self._others if len(part) > _LONG else self)[part] = tokens

    def forget_others(self) -> None:
        self.missing, self._others = [], {}
        if len(self) > _KNOWN:
            self.clear()


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
