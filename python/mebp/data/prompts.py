# SPDX-License-Identifier: Apache-2.0
"""Data of prompts alone, whose completions the model writes and a reward function scores, in TRL's form."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mebp.data.forms import read_tools
from mebp.data.prompt_text import PromptText, PromptTokens, Written, check_kept_out, read_written
from mebp.data.reading import json_objects
from mebp.data.sources import Source
from mebp.data.unknown import unknown_notes
from mebp.errors import Error
from mebp.tokenizer import Tokenizer

_TAKEN = ("prompt", "completion", "completion_ids")  # names that a reward function has for what is not a column


@dataclass(frozen=True)
class Prompt:
    """What the model is to go on from."""

    where: str  # the file, and the line
    written: Written  # as the file has it, for the reward function
    ids: np.ndarray  # int32, up to where the completion begins
    columns: Mapping[str, object]  # what else the line has, for the reward function


@dataclass(frozen=True)
class Prompts:
    """Prompts that leave room for a completion, and columns that are the same for all."""

    rows: Sequence[Prompt]
    notes: Sequence[str] = ()

    @cached_property
    def digest(self) -> str:
        """Of the tokens and the columns, not of the file."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(len(row.ids).to_bytes(4, "little"))
            digest.update(row.ids.tobytes())
            digest.update(json.dumps([row.written, row.columns], sort_keys=True).encode())
        return digest.hexdigest()


def load_prompts(
    path: str | os.PathLike[str], tokenizer: Tokenizer, length: int, room: int = 1, vocabulary: int | None = None
) -> Prompts:
    """Reads a file of JSON objects {"prompt", ...}, the prompt a text or messages that an answer of the model follows.

    All other keys are columns; where a line lacks one that others have, it is None there.
    length: tokens that the bundle takes, of which `room` are for a completion; vocabulary: tokens that the model knows.
    Raises mebp.Error, with the line, for a prompt that cannot be read or does not fit.
    """
    source = Source.of(path)
    tokens = PromptTokens(source.files(), tokenizer, vocabulary)
    entries = list(json_objects(source))
    names = list(dict.fromkeys(name for _, entry in entries for name in entry if name not in _TAKEN))
    texts = [read_prompt(where, entry) for where, entry in entries]
    rows = []
    for (_, entry), text, (ids, _) in zip(entries, texts, tokens.read(texts), strict=True):
        _check_length(text.where, ids, length - room)
        columns = {name: entry.get(name) for name in names}
        rows.append(Prompt(text.where, text.prompt, np.array(ids, dtype=np.int32), columns))
    return Prompts(rows, unknown_notes(source.path, tokenizer, (row.ids for row in rows)))


def join_prompts(parts: Sequence[Prompts]) -> Prompts:
    """Those of several files, all with the columns that any of them has."""
    rows = [row for part in parts for row in part.rows]
    names = list(dict.fromkeys(name for row in rows for name in row.columns))
    filled = [replace(row, columns={name: row.columns.get(name) for name in names}) for row in rows]
    return Prompts(filled, [note for part in parts for note in part.notes])


def _check_length(where: str, ids: Sequence[int], longest: int) -> None:
    if len(ids) > longest:
        raise Error(
            f"{where}: the prompt has {len(ids):,} tokens where {max(longest, 0):,} leave room for a completion; "
            "shorten it, leave it out, or compile with a longer --seq-len"
        )


def read_prompt(where: str, entry: dict) -> PromptText:
    """What stands under "prompt", for an answer to follow; raises mebp.Error where none can."""
    check_kept_out(where, entry)
    if "prompt" not in entry:
        raise Error(f'{where}: has no "prompt"; give one, and beside it what the reward function needs')
    written = read_written(where, entry, "prompt")
    if not written:
        raise Error(f"{where}: the prompt is empty, so nothing can follow; leave the sample out")
    if not isinstance(written, str) and written[-1]["role"] not in ("user", "tool"):
        raise Error(f'{where}: the prompt ends with a turn of "{written[-1]["role"]}"; end it with one of the user')
    return PromptText(where, written, read_tools(where, entry))
