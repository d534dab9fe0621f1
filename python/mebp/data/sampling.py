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
from mebp.data.counting import ALL, AS_USUAL, TURNS, Counting
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
    counting = source.counting
    samples = _Learned(SampleFiles(source).stream(), counting.on)
    encoder, unknown = Encoder(tokenizer), Unknown(tokenizer)
    writer.listener = unknown.see
    stream = iter(samples)
    first = next(stream, None)
    if first is None:
        raise Error(f"{source.path}: every sample is marked as not to be learned; mark some with 1")
    every = chain([first], stream)
    if isinstance(first, Document | TextStream):
        write_documents(every, encoder, writer)
        about = About("text", samples.notes())
    elif isinstance(first, Completion):
        _write_rows(_completions(every, encoder, counting), writer)
        about = About("completion", samples.notes())
    else:
        conversations = _Conversations(source.files(), tokenizer, encoder, counting)
        _write_rows(conversations.rows(every), writer)
        about = About("assistant", [*samples.notes(), *conversations.notes()])
    if counting.weighs and about.kind != "text" and not samples.has_weights:
        about.notes.append("has no weight but 0 and 1, so --turn-weights changes nothing")
    about.notes.extend(unknown.notes())
    writer.finish(about)
    return about


def sample_rows(samples: Sequence[Completion | Conversation], files: Sequence[Path], tokenizer: Tokenizer) -> list[Row]:
    """A row for each of the samples, of one form or of both, none of them cut, in which counts what usually does.

    files: where they are from. Raises mebp.Error, with the line, for what the chat template refuses.
    """
    encoder = Encoder(tokenizer)
    completions = _completions((each for each in samples if isinstance(each, Completion)), encoder, AS_USUAL)
    spoken = [each for each in samples if isinstance(each, Conversation)]
    conversations = _Conversations(files, tokenizer, encoder, AS_USUAL).rows(spoken) if spoken else iter(())
    return [next(completions if isinstance(each, Completion) else conversations) for each in samples]


class _Learned:
    """The samples that no mark leaves out, as --loss-on makes them; and, when they are through, what is worth saying
    of all."""

    def __init__(self, samples: Iterator[Sample | TextStream], on: str) -> None:
        self._samples, self._on = samples, on
        self._seen = self._left_out = self._made = 0
        self._unread: set[str] = set()
        self.has_weights = False  # others than 0 and 1

    def __iter__(self) -> Iterator[Sample | TextStream]:
        for sample in self._samples:
            self._seen += 1
            if isinstance(sample, TextStream):
                yield sample
                continue
            self._unread |= sample.unread
            self.has_weights |= sample.weight != 1 or (isinstance(sample, Conversation) and bool(sample.weights))
            counted = self._counted(sample) if sample.learned else []
            self._made += len(counted)
            self._left_out += not counted
            yield from counted

    def _counted(self, sample: Sample) -> list[Sample]:
        if not isinstance(sample, Conversation):
            return [sample]
        from mebp.data.conversations import counted_samples  # which needs jinja2

        return list(counted_samples(sample, self._on))

    def notes(self) -> list[str]:
        notes = []
        if self._on == TURNS and self._made > self._seen - self._left_out:
            made = f"{self._made:,} samples of {self._seen - self._left_out:,} conversations"
            notes.append(f"{made}, one for each turn of the assistant")
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
        writer.add(row.ids, row.labels != IGNORED_LABEL, weights=row.weights)


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


def _completions(samples: Iterable[Completion], encoder: Encoder, counting: Counting) -> Iterator[Row]:
    batches = _batches(samples, lambda sample: len(sample.prompt) + len(sample.completion))
    for batch in _ahead(batches, encoder):
        yield from completion_rows(batch, encoder, counting)


class _Conversations:
    def __init__(self, files: Sequence[Path], tokenizer: Tokenizer, encoder: Encoder, counting: Counting) -> None:
        from mebp.data.chat_template import ChatTemplate  # jinja2 is not needed for other data
        from mebp.data.turn_ends import turn_ends

        self._template = ChatTemplate.of_data(tokenizer, files)
        self._ends = turn_ends(tokenizer, self._template)
        self._encoder, self._counting = encoder, counting
        self._samples = self._partial = self._endless = 0
        self._hidden: dict[str, bool] = {}  # of each key beside role and content, by the first sample that has it

    def rows(self, samples: Iterable[Conversation]) -> Iterator[Row]:
        from mebp.data.conversations import Turns, conversation_row, find_turns, is_hidden, keys_beside

        def size_of(sample: Conversation) -> int:
            return sum(len(str(turn.get("content"))) for turn in sample.messages)

        def render() -> Iterator[list[Turns]]:
            for batch in _batches(samples, size_of):
                yield list(find_turns(batch, self._template, self._ends, self._counting.on))
                for sample in batch:
                    for key in keys_beside(sample) - self._hidden.keys():
                        self._hidden[key] = is_hidden(sample, key, self._template)

        for turns in _ahead(render(), self._encoder):
            self._samples += len(turns)
            self._partial += sum(not each.complete for each in turns)
            self._encoder.prepare([each.text for each in turns])
            for each in turns:
                row = conversation_row(each, self._encoder, self._ends, self._counting)
                counted = row.labels[row.labels != IGNORED_LABEL]
                if self._counting.on != ALL:  # else the last token may be a line break
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
