# SPDX-License-Identifier: Apache-2.0
"""From a data file to a dataset."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from mebp.data.chat_template import ChatTemplate
from mebp.data.completions import completion_row
from mebp.data.conversations import conversation_row, find_turns, hides_tools
from mebp.data.dataset import Dataset, Row
from mebp.data.forms import Completion, Document, Sample
from mebp.data.packing import pack
from mebp.data.reading import read_samples
from mebp.data.sharing import Sharing, share_rows
from mebp.errors import Error, translate_errors
from mebp.files import user_path
from mebp.tokenizer import Tokenizer


def load_dataset(
    path: str | os.PathLike[str], tokenizer: Tokenizer, length: int, sharing: Sharing | None = None
) -> Dataset:
    """Reads a file and makes rows of up to `length` tokens of it.

    Documents (plain text, or "text" in JSON) are packed. A prompt with its completion or a conversation is a row, or
    with `sharing` one of several in a row. It is cut at its end where it is longer, and left out where nothing to learn
    remains.
    Raises mebp.Error where the file cannot be read, nothing in it can be learned, or a sample is too long and may not
    be cut.
    """
    path = user_path(path)
    samples = read_samples(path)
    if isinstance(samples[0], Document):
        rows, notes = pack(samples, tokenizer, length), []
        if not rows:
            raise Error(f"{path}: has too little text; training needs at least two tokens")
        return Dataset(rows, tokenizer.end_of_text, notes)
    rows, partial = _whole_rows(path, samples, tokenizer)
    if sharing and not sharing.may_cut:
        _check_lengths(path, rows, length)
    rows, notes = _fit(path, rows, length, "completion" if isinstance(samples[0], Completion) else "assistant")
    notes += partial
    if sharing:
        return Dataset(share_rows(rows, length, sharing.seed), tokenizer.end_of_text, notes, len(rows))
    return Dataset(rows, tokenizer.end_of_text, notes)


def has_samples(path: str | os.PathLike[str]) -> bool:
    """Whether the file has prompts or conversations, which may share rows, and no text to cut into rows."""
    return not isinstance(read_samples(user_path(path))[0], Document)


def sample_lengths(path: str | os.PathLike[str], tokenizer: Tokenizer, at_most: int) -> list[int] | None:
    """Tokens of the file's samples, or of `at_most` from all over it; None where they are packed."""
    path = user_path(path)
    samples = read_samples(path)
    if isinstance(samples[0], Document):
        return None
    count = min(at_most, len(samples))
    chosen = [samples[index * len(samples) // count] for index in range(count)]
    return [len(row) for row in _whole_rows(path, chosen, tokenizer)[0]]


def _whole_rows(path: Path, samples: Sequence[Sample], tokenizer: Tokenizer) -> tuple[list[Row], list[str]]:
    """A row for each sample, however long, and what is worth saying of them."""
    if isinstance(samples[0], Completion):
        return [completion_row(sample, tokenizer) for sample in samples], []
    # Where a template writes the date, it is the file's: a run that goes on tomorrow sees the same tokens.
    with translate_errors(f"{path}: cannot be read", "check the path"):
        template = ChatTemplate(tokenizer, now=datetime.fromtimestamp(path.stat().st_mtime))
    turns = list(find_turns(samples, template))
    notes = []
    partial = sum(not each.complete for each in turns)
    if partial:
        reason = "the chat template rewrites earlier turns, so only the assistant's last one counts"
        notes.append(f"{path}: in {partial:,} of {len(turns):,} samples {reason}")
    with_tools = next((sample for sample in samples if sample.tools), None)
    if with_tools and hides_tools(with_tools, template):
        notes.append(f"{path}: the model's chat template writes no tools, so the model does not see them")
    return [conversation_row(each, tokenizer) for each in turns], notes


def _check_lengths(path: Path, rows: Sequence[Row], length: int) -> None:
    for number, row in enumerate(rows, 1):
        if len(row) > length:
            raise Error(
                f"{path}: sample {number:,} has {len(row):,} tokens, and a row {length:,}; shorten it, compile with a "
                "longer --seq-len, or leave --packing out, which cuts it"
            )


def _fit(path: Path, rows: Sequence[Row], length: int, learned: str) -> tuple[list[Row], list[str]]:
    cut = [Row(row.ids[:length], row.labels[:length]) for row in rows]
    kept = [row for row in cut if row.counted]
    if not kept:
        raise Error(
            f"{path}: no sample has a token of the {learned} within {length} tokens; "
            "shorten the prompts, or compile with a longer --seq-len"
        )
    notes = []
    shortened = sum(len(row) > length for row in rows)
    if shortened:
        notes.append(f"{path}: {shortened:,} of {len(rows):,} samples were cut to {length} tokens")
    if len(kept) < len(rows):
        missing = f"had no {learned} token within {length} tokens and were left out"
        notes.append(f"{path}: {len(rows) - len(kept):,} of {len(rows):,} samples {missing}")
    return kept, notes
