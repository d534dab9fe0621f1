# SPDX-License-Identifier: Apache-2.0
"""From a data file to a dataset."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from mebp.data.completions import completion_row
from mebp.data.dataset import Dataset, Row
from mebp.data.forms import Completion, Conversation, Document
from mebp.data.packing import pack
from mebp.data.reading import read_samples
from mebp.errors import Error, translate_errors
from mebp.files import user_path
from mebp.tokenizer import Tokenizer


def load_dataset(path: str | os.PathLike[str], tokenizer: Tokenizer, length: int) -> Dataset:
    """Reads a file and makes rows of up to `length` tokens of it.

    Documents (plain text, or "text" in JSON) are packed. A prompt with its completion or a conversation is a row, cut
    at its end where it is longer, and left out where nothing to learn remains.
    Raises mebp.Error where the file cannot be read or nothing in it can be learned.
    """
    path = user_path(path)
    with translate_errors(f"{path}: cannot be read", "check the path"):
        modified = datetime.fromtimestamp(path.stat().st_mtime)
    samples = read_samples(path)
    if isinstance(samples[0], Document):
        rows, notes = pack(samples, tokenizer, length), []
        if not rows:
            raise Error(f"{path}: has too little text; training needs at least two tokens")
    elif isinstance(samples[0], Completion):
        rows, notes = _fit(path, [completion_row(sample, tokenizer) for sample in samples], length, "completion")
    else:
        rows, notes = _conversations(path, samples, tokenizer, length, modified)
    return Dataset(rows, tokenizer.end_of_text, notes)


def _conversations(
    path: Path, samples: Sequence[Conversation], tokenizer: Tokenizer, length: int, modified: datetime
) -> tuple[list[Row], list[str]]:
    from mebp.data.chat_template import ChatTemplate  # jinja2 is not needed for other data
    from mebp.data.conversations import conversation_row, find_turns

    # Where a template writes the date, it is the file's: a run that goes on tomorrow sees the same tokens.
    template = ChatTemplate(tokenizer, now=modified)
    turns = [find_turns(sample, template) for sample in samples]
    rows, notes = _fit(path, [conversation_row(each, tokenizer) for each in turns], length, "assistant")
    partial = sum(not each.complete for each in turns)
    if partial:
        reason = "the chat template rewrites earlier turns, so only the assistant's last one counts"
        notes.append(f"{path}: in {partial:,} of {len(turns):,} samples {reason}")
    return rows, notes


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
