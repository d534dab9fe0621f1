# SPDX-License-Identifier: Apache-2.0
"""Data of preferences: prompts, each with a chosen and a rejected completion, in TRL's forms."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mebp.data.forms import read_tools
from mebp.data.prompt_text import PromptText, PromptTokens, Written, check_kept_out, read_written
from mebp.data.reading import json_objects
from mebp.data.sources import Source
from mebp.data.unknown import unknown_notes
from mebp.errors import Error
from mebp.tokenizer import Tokenizer

_KEYS = ("chosen", "rejected")
_WANTED = 'give "prompt", "chosen" and "rejected", or "chosen" and "rejected" that begin alike'


@dataclass(frozen=True)
class Preference:
    """A prompt and its two completions, int32 ids, each completion with the token that ends it."""

    where: str  # the file, and the line
    prompt: np.ndarray
    chosen: np.ndarray
    rejected: np.ndarray

    @property
    def lengths(self) -> tuple[int, int]:
        """Tokens of the prompt and each completion."""
        return len(self.prompt) + len(self.chosen), len(self.prompt) + len(self.rejected)


@dataclass(frozen=True)
class Preferences:
    """Pairs whose sequences fit the bundle."""

    rows: Sequence[Preference]
    notes: Sequence[str] = ()

    @cached_property
    def digest(self) -> str:
        """Of the tokens, not of the file."""
        digest = hashlib.sha256()
        for row in self.rows:
            for ids in (row.prompt, row.chosen, row.rejected):
                digest.update(len(ids).to_bytes(4, "little"))
                digest.update(ids.tobytes())
        return digest.hexdigest()


def load_preferences(
    path: str | os.PathLike[str], tokenizer: Tokenizer, length: int, vocabulary: int | None = None
) -> Preferences:
    """Reads a file of JSON objects {"prompt", "chosen", "rejected"}, texts or messages.

    Without a prompt, it is what chosen and rejected begin with alike, as TRL's extract_prompt has it. So it is where
    the prompt is a text beside completions of messages. Other keys are not read.
    length: tokens that the bundle takes; vocabulary: tokens that the model knows.
    Raises mebp.Error, with the line, for a sample that cannot be learned or does not fit.
    """
    source = Source.of(path)
    path = source.path
    tokens = PromptTokens(source.files(), tokenizer, vocabulary)
    texts = [_read(where, entry) for where, entry in json_objects(source)]
    rows = [_preference(text.where, *ids, length) for text, ids in zip(texts, tokens.read(texts), strict=True)]
    notes = []
    if tokens.retokenized:
        notes.append(
            f"{path}: {tokens.retokenized:,} of {2 * len(rows):,} completions would share a token with their prompt; "
            "they were made tokens of by themselves"
        )
    parts = (ids for row in rows for ids in (row.prompt, row.chosen, row.rejected))
    return Preferences(rows, notes + unknown_notes(path, tokenizer, parts))


def _preference(where: str, prompt_ids: list[int], completions: Sequence[list[int]], length: int) -> Preference:
    chosen, rejected = completions
    if chosen == rejected:
        raise Error(f'{where}: "chosen" and "rejected" are the same tokens, so neither is preferred; leave it out')
    longest = len(prompt_ids) + max(len(chosen), len(rejected))
    if longest > length:
        raise Error(
            f"{where}: has {longest:,} tokens where the bundle takes {length:,}; "
            "shorten it, leave it out, or compile with a longer --seq-len"
        )
    return Preference(where, *(np.array(ids, dtype=np.int32) for ids in (prompt_ids, chosen, rejected)))


def _read(where: str, entry: dict) -> PromptText:
    check_kept_out(where, entry)
    prompt, completions = _find_prompt(where, entry)
    named = {f'"{key}"': value for key, value in zip(_KEYS, completions, strict=True)}
    return PromptText(where, prompt, read_tools(where, entry), named)


def _find_prompt(where: str, entry: dict) -> tuple[Written, tuple[Written, Written]]:
    missing = next((key for key in _KEYS if key not in entry), None)
    if missing:
        raise Error(f'{where}: has no "{missing}"; {_WANTED}')
    chosen, rejected = (read_written(where, entry, key) for key in _KEYS)
    if isinstance(chosen, str) != isinstance(rejected, str):
        raise Error(f'{where}: one of "chosen" and "rejected" is text and the other messages; give both alike')
    for key, value in zip(_KEYS, (chosen, rejected), strict=True):
        if not value:
            raise Error(f'{where}: "{key}" is empty, so there is nothing to learn; leave it out')
    if chosen == rejected:
        raise Error(f'{where}: "chosen" and "rejected" are the same, so neither is preferred; leave it out')
    if "prompt" in entry:
        prompt = read_written(where, entry, "prompt")
        if isinstance(prompt, str) == isinstance(chosen, str):
            return prompt, (chosen, rejected)
        if not isinstance(prompt, str):
            raise Error(f'{where}: "prompt" is messages where "chosen" is text; give both alike')
    return extract_prompt(where, chosen, rejected)


def extract_prompt(where: str, chosen: Written, rejected: Written) -> tuple[Written, tuple[Written, Written]]:
    """What two different completions begin with alike, and the rest of each, at least a character or a message."""
    shorter = min(len(chosen), len(rejected))
    common = next((index for index in range(shorter) if chosen[index] != rejected[index]), shorter - 1)
    if common and isinstance(chosen, str) and chosen[common - 1] == " ":  # a space belongs to the word after it
        common -= 1
    if not common:
        raise Error(f'{where}: has no "prompt", and "chosen" and "rejected" do not begin alike; {_WANTED}')
    return chosen[:common], (chosen[common:], rejected[common:])
