# SPDX-License-Identifier: Apache-2.0
"""Samples to tokens, as a stream."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from mebp.arrays import IGNORED_LABEL
from mebp.data.ahead import ahead
from mebp.data.completions import completion_rows
from mebp.data.dataset import Row
from mebp.data.encoding import Encoder
from mebp.data.forms import Completion, Conversation, Document, Sample
from mebp.data.packing import write_documents
from mebp.data.reading import SampleFiles, TextStream
from mebp.data.sources import Source
from mebp.data.store import About, TokenWriter
from mebp.data.unknown import Unknown
from mebp.errors import Error
from mebp.tokenizer import Tokenizer

_MOST_NAMED = 10  # keys
_TOGETHER = 1 << 19  # characters of samples that are encoded at once


def write_samples(source: Source, tokenizer: Tokenizer, writer: TokenWriter) -> About:
    """Reads files of one form and writes what their samples are in tokens, none of them cut.

    Raises mebp.Error, with the line, for what cannot be read or the chat template refuses.
    """
    samples, encoder, unknown = _Learned(SampleFiles(source).stream()), Encoder(tokenizer), Unknown(tokenizer)
    writer.listener = unknown.see
    first = next(iter(samples), None)
    if first is None:
        raise Error(f"{source.path}: every sample is marked as not to be learned; mark some with 1")
    every = chain([first], samples)
    if isinstance(first, Document | TextStream):
        write_documents(every, encoder, writer)
        about = About("text", samples.notes())
    elif isinstance(first, Completion):
        _write_rows(_completions(every, encoder), writer)
        about = About("completion", samples.notes())
    else:
        conversations = _Conversations(source.files(), tokenizer, encoder)
        _write_rows(conversations.rows(every), writer)
        about = About("assistant", [*samples.notes(), *conversations.notes()])
    about.notes.extend(unknown.notes())
    writer.finish(about)
    return about


class _Learned:
    """The samples that no mark leaves out; and, when they are through, what is worth saying of all."""

    def __init__(self, samples: Iterator[Sample | TextStream]) -> None:
        self._samples = samples
        self._seen = self._left_out = 0
        self._unread: set[str] = set()

    def __iter__(self) -> Iterator[Sample | TextStream]:
        for sample in self._samples:
            self._seen += 1
            if isinstance(sample, TextStream):
                yield sample
                continue
            self._unread |= sample.unread
            if sample.learned:
                yield sample
            else:
                self._left_out += 1

    def notes(self) -> list[str]:
        notes = []
        if self._left_out:
            notes.append(f"{self._left_out:,} of {self._seen:,} samples are marked as not to be learned")
        if self._unread:
            notes.append(f"{_quoted(self._unread)} beside the samples' own keys: not read")
        return notes


def _quoted(keys: Iterable[str]) -> str:
    found = sorted(keys)
    more = f" and {len(found) - _MOST_NAMED:,} more" if len(found) > _MOST_NAMED else ""
    return f"{', '.join(json.dumps(key, ensure_ascii=False) for key in found[:_MOST_NAMED])}{more}"


def _write_rows(rows: Iterable[Row], writer: TokenWriter) -> None:
    for row in rows:
        writer.add(row.ids, row.labels != IGNORED_LABEL)


def _batches(samples: Iterable[Sample], size_of: Callable[[Sample], int]) -> Iterator[list[Sample]]:
    batch, size = [], 0
    for sample in samples:
        batch.append(sample)
        size += size_of(sample)
        if size > _TOGETHER:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _ahead(batches: Iterator[list[Any]], encoder: Encoder) -> Iterator[list[Any]]:
    """The batches, of which a second thread makes the next one while the tokenizer's threads are at work."""
    return batches if encoder.threads == 1 else ahead(batches)


def _completions(samples: Iterable[Completion], encoder: Encoder) -> Iterator[Row]:
    batches = _batches(samples, lambda sample: len(sample.prompt) + len(sample.completion))
    for batch in _ahead(batches, encoder):
        yield from completion_rows(batch, encoder)


class _Conversations:
    def __init__(self, files: Sequence[Path], tokenizer: Tokenizer, encoder: Encoder) -> None:
        from mebp.data.chat_template import ChatTemplate  # jinja2 is not needed for other data
        from mebp.data.turn_ends import turn_ends

        self._template = ChatTemplate.of_data(tokenizer, files)
        self._ends = turn_ends(tokenizer, self._template)
        self._encoder = encoder
        self._samples = self._partial = self._endless = 0
        self._hidden: dict[str, bool] = {}  # of each key beside role and content, by the first sample that has it

    def rows(self, samples: Iterable[Conversation]) -> Iterator[Row]:
        from mebp.data.conversations import Turns, conversation_row, find_turns, is_hidden, keys_beside

        def size_of(sample: Conversation) -> int:
            return sum(len(str(turn.get("content"))) for turn in sample.messages)

        def render() -> Iterator[list[Turns]]:
            for batch in _batches(samples, size_of):
                yield list(find_turns(batch, self._template, self._ends))
                for sample in batch:
                    for key in keys_beside(sample) - self._hidden.keys():
                        self._hidden[key] = is_hidden(sample, key, self._template)

        for turns in _ahead(render(), self._encoder):
            self._samples += len(turns)
            self._partial += sum(not each.complete for each in turns)
            self._encoder.prepare([each.text for each in turns])
            for each in turns:
                row = conversation_row(each, self._encoder, self._ends)
                counted = row.labels[row.labels != IGNORED_LABEL]
                self._endless += len(counted) > 0 and int(counted[-1]) not in self._ends.closing
                yield row

    def notes(self) -> list[str]:
        """What is worth saying of them."""
        notes = []
        if self._partial:
            reason = "the chat template rewrites earlier turns, so only the assistant's last one counts"
            notes.append(f"in {self._partial:,} of {self._samples:,} samples {reason}")
        if self._endless:
            reason = "no end mark stands behind the last answer, so the model does not learn to stop there"
            notes.append(f"in {self._endless:,} of {self._samples:,} samples {reason}")
        hidden = [key for key, is_so in self._hidden.items() if is_so]
        if hidden:
            notes.append(f"the model's chat template writes no {_quoted(hidden)}, so the model does not see that")
        return notes
