# SPDX-License-Identifier: Apache-2.0
"""Text of which some tokens are masked, as BERT learns them: of those that are chosen, 80 % become the mask token, 10 %
a random one, and 10 % stay; all of them are to be predicted."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.dataset import Dataset, Row
from mebp.data.forms import Document
from mebp.data.loading import mix_datasets
from mebp.data.packing import cut
from mebp.data.reading import SampleFiles
from mebp.data.sharing import Sharing, share_rows
from mebp.data.sources import Source, read_sources
from mebp.data.unknown import unknown_notes
from mebp.errors import Error
from mebp.tokenizer import Tokenizer

PROBABILITY = 0.15
_MASKED, _REPLACED = 0.8, 0.9  # below the first the mask token, from there to the second a random one
_MEASURED = 0x6D61736B  # in the key of masks to measure with, where a seed has an epoch beside it


@dataclass(frozen=True)
class Masking:
    """Which tokens are masked depends on the row and a key alone."""

    mask: int
    ordinary: np.ndarray  # int32, the tokens that another may become
    probability: float = PROBABILITY  # of each token to be chosen

    @classmethod
    def of(cls, tokenizer: Tokenizer, vocabulary: int, probability: float = PROBABILITY) -> "Masking":
        """Raises mebp.Error where the tokenizer has no mask token."""
        special = np.array(sorted(tokenizer.special_tokens), dtype=np.int32)
        known = np.arange(min(vocabulary, tokenizer.size), dtype=np.int32)
        return cls(tokenizer.mask, np.setdiff1d(known, special), probability)

    def apply(self, row: Row, key: Sequence[int]) -> Row:
        """The row with its labels at chosen tokens alone; one at least, of those that may be."""
        generator = np.random.default_rng(key)
        luck, kind = generator.random((2, len(row)))
        other = generator.choice(self.ordinary, len(row))
        luck[row.labels == IGNORED_LABEL] = np.inf
        chosen = luck < self.probability
        chosen[np.argmin(luck)] = True
        shown = np.where(kind < _MASKED, np.int32(self.mask), np.where(kind < _REPLACED, other, row.ids))
        ids = np.where(chosen, shown, row.ids)
        return replace(row, ids=ids, labels=np.where(chosen, row.labels, np.int32(IGNORED_LABEL)))


@dataclass(frozen=True)
class MaskedText:
    """Rows whose labels are of all tokens that may be masked."""

    whole: Dataset
    masking: Masking

    def step_batches(
        self, step: int, batch: int, accumulate: int, seed: int
    ) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray] | None]:
        """As Dataset.step_batches; a row's masks are others in each epoch."""
        epoch = step // self.steps_per_epoch(batch * accumulate)

        def mask(row: Row, index: int) -> Row:
            return self.masking.apply(row, (seed, epoch, index))

        return self.whole.step_batches(step, batch, accumulate, seed, mask)

    def steps_per_epoch(self, rows_per_step: int) -> int:
        return self.whole.steps_per_epoch(rows_per_step)


def load_masked(
    given: object, tokenizer: Tokenizer, length: int, masking: Masking, sharing: Sharing | None
) -> MaskedText:
    """Reads a file of text, or several as read_sources has them, and makes samples of up to `length` tokens of them,
    with `sharing` several in a row.

    Raises mebp.Error where a file cannot be read or has no token to predict.
    """

    def load(source: Source) -> Dataset:
        samples = _read(source, tokenizer, length)
        rows = share_rows(samples, length, sharing.seed) if sharing else samples
        notes = unknown_notes(source.path, tokenizer, (row.ids for row in samples))
        return Dataset(rows, tokenizer.padding, notes, samples=len(samples))

    sources = read_sources(given)
    return MaskedText(mix_datasets(sources, [load(source) for source in sources]), masking)


def load_measured(path: str | os.PathLike[str], tokenizer: Tokenizer, length: int, vocabulary: int) -> Dataset:
    """The same to measure a loss on: 15 % are masked, the same tokens of a file in every run."""
    masking = Masking.of(tokenizer, vocabulary)
    whole = _read(path, tokenizer, length)
    samples = [masking.apply(row, (_MEASURED, index)) for index, row in enumerate(whole)]
    notes = unknown_notes(path, tokenizer, (row.ids for row in whole))
    return Dataset(share_rows(samples, length, seed=0), tokenizer.padding, notes, samples=len(samples))


def _read(path: str | os.PathLike[str], tokenizer: Tokenizer, length: int) -> list[Row]:
    samples = cut(read_documents(path), tokenizer, length)
    if not samples:
        raise Error(f"{Source.of(path).path}: has no token to predict within {length} tokens; give it some text")
    return samples


def read_documents(path: str | os.PathLike[str]) -> Iterator[Document]:
    """Raises mebp.Error where the file cannot be read or is no text."""
    source = Source.of(path)
    for sample in SampleFiles(source):
        if not isinstance(sample, Document):
            raise Error(
                f'{source.path}: has prompts or conversations; --task fill-mask takes plain text, or {{"text"}} a line'
            )
        yield sample
