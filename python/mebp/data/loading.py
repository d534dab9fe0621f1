# SPDX-License-Identifier: Apache-2.0
"""From data files to a dataset."""

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from mebp.data.counting import LAST, TURNS
from mebp.data.dataset import Dataset, Row, Totals
from mebp.data.forms import Completion, Document, Sample
from mebp.data.holding_out import HoldOut, Part, take_part
from mebp.data.keeping import kept, tokens_of, were_read
from mebp.data.mixing import Mix, choose_taken
from mebp.data.reading import SampleFiles, TextStream
from mebp.data.sharing import SharedRows, Sharing, place_samples
from mebp.data.sources import Source, names_of
from mebp.data.store import Spans, Tokens
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from mebp.words import listed

_AT_ONCE = 1 << 9  # samples whose labels are looked at together


def load_dataset(
    path: str | os.PathLike[str], tokenizer: Tokenizer, length: int, sharing: Sharing | None = None
) -> Dataset:
    """Reads a file, or the files of a folder, and makes rows of up to `length` tokens of it.

    Documents (plain text, or "text" in JSON) are packed. A prompt with its completion or a conversation is a row, or
    with `sharing` one of several in a row. It is cut at its end where it is longer, and left out where nothing to learn
    remains.
    Raises mebp.Error where the file cannot be read, nothing in it can be learned, or a sample is too long and may not
    be cut.
    """
    read = _Read.of(Source.of(path), tokenizer, length, sharing)
    plan = read.plan()
    return read.dataset(plan, len(plan.begins))


def load_mixed(sources: Sequence[Source], tokenizer: Tokenizer, length: int, sharing: Sharing | None = None) -> Dataset:
    """The same of one or several, each of which has its share of an epoch's rows."""
    return mix_datasets(sources, [load_dataset(source, tokenizer, length, sharing) for source in sources])


def load_parts(
    sources: Sequence[Source], tokenizer: Tokenizer, length: int, sharing: Sharing | None, hold_out: HoldOut
) -> tuple[Dataset, Dataset | None]:
    """The same without what is held out, and that; None where it is nothing."""
    reads = [_Read.of(source, tokenizer, length, sharing) for source in sources]
    counts = hold_out.counts([read.samples for read in reads])
    trained, held = [], []
    for read, count in zip(reads, counts, strict=True):
        parts = [Part(count, hold_out.seed, held) for held in (False, True)] if count else [None]
        plan, *others = map(read.plan, parts)
        left = sum(len(each.begins) for each in (plan, *others))
        trained.append(read.dataset(plan, left))
        held += [replace(read.dataset(other, left), notes=()) for other in others if len(other.begins)]
    return mix_datasets(sources, trained), chain_datasets(held)


def split_datasets(parts: Sequence[Dataset], hold_out: HoldOut) -> tuple[list[Dataset], Dataset | None]:
    """The same of datasets of which each row is a sample."""
    trained, held = [], []
    for data, count in zip(parts, hold_out.counts([len(part.rows) for part in parts]), strict=True):
        trained.append(take_part(data, Part(count, hold_out.seed, held=False)) if count else data)
        held += [take_part(data, Part(count, hold_out.seed, held=True))] if count else []
    return trained, chain_datasets([data for data in held if len(data.rows)])


def chain_datasets(parts: Sequence[Dataset]) -> Dataset | None:
    """All rows of several, to measure on."""
    if len(parts) < 2:
        return next(iter(parts), None)
    counts = [len(part.rows) if part.samples is None else part.samples for part in parts]
    samples = None if all(part.samples is None for part in parts) else sum(counts)
    weighted = any(part.weighted for part in parts)
    return Dataset(_Chained([part.rows for part in parts]), parts[0].padding, (), samples, weighted=weighted)


def mix_datasets(sources: Sequence[Source], parts: Sequence[Dataset]) -> Dataset:
    """What was read of each source, as one."""
    if len(parts) == 1:
        return parts[0]
    counts = tuple(len(part.rows) for part in parts)
    mix = Mix(tuple(names_of(sources)), counts, tuple(choose_taken(counts, [source.share for source in sources])))
    digests = json.dumps([[part.digest, taken] for part, taken in zip(parts, mix.taken, strict=True)])
    totals = Totals(
        sum(part.tokens for part in parts),
        sum(part.counted for part in parts),
        hashlib.sha256(digests.encode()).hexdigest(),
    )
    samples = None
    if any(part.samples is not None for part in parts):
        samples = sum(len(part.rows) if part.samples is None else part.samples for part in parts)
    notes = [note for part in parts for note in part.notes]
    rows, weighted = _Chained([part.rows for part in parts]), any(part.weighted for part in parts)
    return Dataset(rows, parts[0].padding, notes, samples, totals, mix, weighted)


def has_samples(path: str | os.PathLike[str]) -> bool:
    """Whether the file has prompts or conversations, which may share rows, and no text to cut into rows."""
    return not isinstance(_first(Source.of(path)), Document | TextStream)


def check_counting(sources: Sequence[Source]) -> None:
    """Raises mebp.Error where an option that says what counts has nothing to act on in any of them."""
    asked = sources[0].counting.asked
    if not asked:
        return
    kinds, named = [type(_first(source)) for source in sources], listed(map(str, sources), "and")
    if all(issubclass(kind, Document | TextStream) for kind in kinds):
        option = next(iter(asked.values()))
        raise Error(f"{option}: {named} has no answers: it is text, all of which counts; leave {option} out")
    of_turns = sources[0].counting.on in (LAST, TURNS)
    if of_turns and all(issubclass(kind, Document | TextStream | Completion) for kind in kinds):
        option = asked["--loss-on"]
        raise Error(f"{option}: {named} has no turns to choose from; give --loss-on all, or leave it out")


def _first(source: Source) -> Sample | TextStream:
    return next(SampleFiles(source).stream())


def check_samples(path: str | os.PathLike[str]) -> None:
    """Raises mebp.Error, with the line, where the samples cannot be read."""
    source = Source.of(path)
    if were_read(source):
        return
    for sample in SampleFiles(source).stream():
        for _ in sample.blocks if isinstance(sample, TextStream) else ():
            pass


def sample_lengths(path: str | os.PathLike[str], tokenizer: Tokenizer, at_most: int) -> list[int] | None:
    """Tokens of the file's samples, or of `at_most` from all over it; None where they are packed."""
    if not has_samples(path):
        return None
    lengths = tokens_of(Source.of(path), tokenizer)[0].lengths
    count = min(at_most, len(lengths))
    return [int(lengths[index * len(lengths) // count]) for index in range(count)]


@dataclass(frozen=True)
class _Read:
    """A source in tokens, and how rows are made of them."""

    path: Path
    tokens: Tokens
    key: str | None  # of the cache
    padding: int
    length: int
    sharing: Sharing | None

    @classmethod
    def of(cls, source: Source, tokenizer: Tokenizer, length: int, sharing: Sharing | None) -> "_Read":
        tokens, key = tokens_of(source, tokenizer)
        if sharing and not sharing.may_cut and tokens.about.kind != "text":
            _check_lengths(source.path, tokens.lengths, length)
        return cls(source.path, tokens, key, tokenizer.end_of_text, length, sharing)

    @property
    def samples(self) -> int:
        """Or rows of text."""
        return len(_spans(self.tokens, self.length)[0])

    def plan(self, part: Part | None = None) -> "_Plan":
        if self.key:
            return _kept_plan(self.tokens, self.length, self.sharing, self.key, part)
        return _Plan.of(self.tokens, self.length, self.sharing, part)

    def dataset(self, plan: "_Plan", left: int) -> Dataset:
        """left: samples of all parts."""
        path, tokens, length = self.path, self.tokens, self.length
        if not len(plan.begins):
            raise Error(
                f"{path}: has too little text; training needs at least two tokens"
                if tokens.about.kind == "text"
                else f"{path}: no sample has a token of the {tokens.about.kind} within {length} tokens; "
                "shorten the prompts, or compile with a longer --seq-len"
            )
        samples = None if plan.members is None else len(plan.begins)
        notes = [f"{path}: {note}" for note in _notes(tokens, length, left)]
        weighted = tokens.weights is not None
        return Dataset(plan.rows(tokens), self.padding, notes, samples, plan.totals, weighted=weighted)


@dataclass(frozen=True)
class _Plan:
    """Which parts of the tokens are samples, or rows of text, and which of them share rows."""

    begins: np.ndarray
    ends: np.ndarray
    members: np.ndarray | None = None  # as SharedRows has them
    bounds: np.ndarray | None = None
    totals: Totals | None = None

    @classmethod
    def of(cls, tokens: Tokens, length: int, sharing: Sharing | None, part: Part | None = None) -> "_Plan":
        begins, ends = _spans(tokens, length)
        if part:
            chosen = part.of(Spans(tokens, begins, ends))
            begins, ends = begins[chosen], ends[chosen]
        if tokens.about.kind == "text" or sharing is None or not len(begins):
            return cls(begins, ends)
        return cls(begins, ends, *place_samples(ends - begins, length, sharing.seed))

    def rows(self, tokens: Tokens) -> Sequence[Row]:
        spans = Spans(tokens, self.begins, self.ends)
        return spans if self.members is None else SharedRows(spans, self.members, self.bounds)


def _spans(tokens: Tokens, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Where each sample that can be learned begins and ends, or each row of text."""
    if tokens.about.kind == "text":
        begins = np.arange(0, max(len(tokens.ids) - 1, 0), length)  # one token predicts nothing
        return begins, np.minimum(begins + length, len(tokens.ids))
    begins = tokens.bounds[:-1]
    ends = np.minimum(tokens.bounds[1:], begins + length)
    learnable = _have_labels(tokens, begins, ends)
    return begins[learnable], ends[learnable]


_ARRAYS = ("begins", "ends", "members", "bounds")


def _kept_plan(tokens: Tokens, length: int, sharing: Sharing | None, key: str, part: Part | None) -> _Plan:
    """From the cache, with what is known of all rows."""

    def make(folder: Path) -> None:
        plan = _Plan.of(tokens, length, sharing, part)
        for name in _ARRAYS:
            if getattr(plan, name) is not None:
                np.save(folder / f"{name}.npy", getattr(plan, name))
        (folder / "totals.json").write_text(json.dumps(asdict(Totals.of(plan.rows(tokens)))), encoding="utf-8")

    shared = "alone" if sharing is None else f"shared-{sharing.seed}"
    folder = kept(f"rows/{key}-{length}-{shared}{f'-{part.name}' if part else ''}", make)
    found = {name: folder / f"{name}.npy" for name in _ARRAYS}
    try:
        totals = Totals(**json.loads((folder / "totals.json").read_text(encoding="utf-8")))
        arrays = {name: np.load(path, mmap_mode="r") for name, path in found.items() if path.exists()}
        return _Plan(**arrays, totals=totals)
    except (OSError, ValueError, TypeError) as error:
        raise Error(f"{folder}: is damaged; delete it, and it is made again") from error


def _have_labels(tokens: Tokens, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Whether a label counts in each of these parts; nothing predicts the first token of one."""
    found = np.empty(len(begins), bool)
    for start in range(0, len(begins), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        first, last = int(begins[part][0]), int(ends[part][-1])
        counted = np.concatenate([[0], np.cumsum(tokens.learned[first:last], dtype=np.int32)])
        found[part] = counted[ends[part] - first] > counted[np.minimum(begins[part] + 1, ends[part]) - first]
    return found


def _check_lengths(path: Path, lengths: np.ndarray, length: int) -> None:
    too_long = np.flatnonzero(lengths > length)
    if len(too_long):
        raise Error(
            f"{path}: sample {too_long[0] + 1:,} has {lengths[too_long[0]]:,} tokens, and a row {length:,}; shorten "
            "it, compile with a longer --seq-len, or leave --packing out, which cuts it"
        )


def _notes(tokens: Tokens, length: int, left: int) -> list[str]:
    if tokens.about.kind == "text":
        return list(tokens.about.notes)
    notes, lengths = [], tokens.lengths
    shortened = int(np.count_nonzero(lengths > length))
    if shortened:
        notes.append(f"{shortened:,} of {len(lengths):,} samples were cut to {length} tokens")
    if left < len(lengths):
        missing = f"had no {tokens.about.kind} token within {length} tokens and were left out"
        notes.append(f"{len(lengths) - left:,} of {len(lengths):,} samples {missing}")
    return [*notes, *tokens.about.notes]


@dataclass(frozen=True)
class _Chained(Sequence[Row]):
    """Rows of several datasets, one after the other."""

    parts: Sequence[Sequence[Row]]

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(len, self.parts)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Row:
        if not 0 <= index < len(self):
            raise IndexError(index)
        part = bisect_right(self._ends, index)
        return self.parts[part][index - (self._ends[part - 1] if part else 0)]
