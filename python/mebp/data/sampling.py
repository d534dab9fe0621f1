# SPDX-License-Identifier: Apache-2.0
"""Samples to tokens, as a stream."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path

from mebp.arrays import IGNORED_LABEL
from mebp.data.completions import completion_row
from mebp.data.dataset import Row
from mebp.data.encoding import Encoder
from mebp.data.forms import Completion, Conversation, Document, Sample
from mebp.data.packing import write_documents
from mebp.data.reading import SampleFiles, TextStream
from mebp.data.store import About, TokenWriter
from mebp.errors import translate_errors
from mebp.tokenizer import Tokenizer

_TOGETHER = 1 << 17  # characters of samples that are encoded at once


def write_samples(files: Sequence[Path], tokenizer: Tokenizer, writer: TokenWriter) -> About:
    """Reads files of one form and writes what their samples are in tokens, none of them cut.

    Raises mebp.Error, with the line, for what cannot be read or the chat template refuses.
    """
    samples, encoder = SampleFiles(files).stream(), Encoder(tokenizer)
    first = next(samples)
    every = chain([first], samples)
    if isinstance(first, Document | TextStream):
        write_documents(every, encoder, writer)
        about = About("text")
    elif isinstance(first, Completion):
        _write_rows(_completions(every, encoder), writer)
        about = About("completion")
    else:
        conversations = _Conversations(files, tokenizer, encoder)
        _write_rows(conversations.rows(every), writer)
        about = About("assistant", conversations.notes())
    writer.finish(about)
    return about


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


def _completions(samples: Iterable[Completion], encoder: Encoder) -> Iterator[Row]:
    for batch in _batches(samples, lambda sample: 2 * len(sample.prompt) + len(sample.completion)):
        encoder.prepare([text for each in batch for text in (each.prompt, each.prompt + each.completion)])
        yield from (completion_row(sample, encoder) for sample in batch)


class _Conversations:
    def __init__(self, files: Sequence[Path], tokenizer: Tokenizer, encoder: Encoder) -> None:
        from mebp.data.chat_template import ChatTemplate  # jinja2 is not needed for other data

        # Where a template writes the date, it is the file's: a run that goes on tomorrow sees the same tokens.
        with translate_errors(f"{files[0]}: cannot be read", "check the path"):
            now = datetime.fromtimestamp(max(file.stat().st_mtime for file in files))
            self._template = ChatTemplate(tokenizer, now=now)
        self._encoder = encoder
        self._samples = self._partial = 0
        self._hides_tools: bool | None = None

    def rows(self, samples: Iterable[Conversation]) -> Iterator[Row]:
        from mebp.data.conversations import conversation_row, find_turns, hides_tools

        def size_of(sample: Conversation) -> int:
            return sum(len(str(turn.get("content"))) for turn in sample.messages)

        for batch in _batches(samples, size_of):
            turns = [find_turns(sample, self._template) for sample in batch]
            self._samples += len(turns)
            self._partial += sum(not each.complete for each in turns)
            with_tools = next((sample for sample in batch if sample.tools), None)
            if with_tools and self._hides_tools is None:
                self._hides_tools = hides_tools(with_tools, self._template)
            self._encoder.prepare([each.text for each in turns], with_places=True)
            yield from (conversation_row(each, self._encoder) for each in turns)

    def notes(self) -> list[str]:
        """What is worth saying of them."""
        notes = []
        if self._partial:
            reason = "the chat template rewrites earlier turns, so only the assistant's last one counts"
            notes.append(f"in {self._partial:,} of {self._samples:,} samples {reason}")
        if self._hides_tools:
            notes.append("the model's chat template writes no tools, so the model does not see them")
        return notes
