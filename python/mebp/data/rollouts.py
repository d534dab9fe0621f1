# SPDX-License-Identifier: Apache-2.0
"""Completions that were written elsewhere, with what is known of them: rewards, the writer's log-probabilities."""

import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mebp.data.json_values import kind, read_string
from mebp.data.prompt_text import PromptTokens, check_kept_out, read_written
from mebp.data.prompts import Prompt, read_prompt
from mebp.data.reading import json_objects
from mebp.data.sources import Source
from mebp.data.unknown import unknown_notes
from mebp.errors import Error
from mebp.numbers import LARGEST_SCORE, as_float
from mebp.tokenizer import Tokenizer

_OWN = ("prompt", "prompt_ids", "completions")
_BEYOND = 1 << 31  # which no id reaches


@dataclass(frozen=True)
class Completion:
    """What a model wrote after a prompt, arrays of [tokens]."""

    where: str  # the file, the line and the number
    text: str
    ids: np.ndarray  # int32
    mask: np.ndarray  # bool; False where a tool wrote the token
    logps: np.ndarray | None  # float32, the writer's, in nats; NaN where it has none
    rewards: np.ndarray | None  # float64 [rewards]; NaN for null
    advantage: float | None


@dataclass(frozen=True)
class Rollout:
    """A prompt and the group of its completions."""

    prompt: Prompt
    completions: Sequence[Completion]


@dataclass(frozen=True)
class Rollouts:
    """Groups of one size, whose sequences fit the bundle."""

    rows: Sequence[Rollout]
    notes: Sequence[str] = ()

    @cached_property
    def digest(self) -> str:
        """Of all that is trained with, not of the file."""
        digest = hashlib.sha256()
        for row in self.rows:
            for ids in (row.prompt.ids, *(each.ids for each in row.completions)):
                digest.update(len(ids).to_bytes(4, "little"))
                digest.update(ids.tobytes())
            for each in row.completions:
                for values in (each.mask, each.logps, each.rewards):
                    digest.update(b"-" if values is None else values.tobytes())
                digest.update(repr(each.advantage).encode())
        return digest.hexdigest()


def load_rollouts(
    path: str | os.PathLike[str], tokenizer: Tokenizer, length: int, vocabulary: int | None = None, least: int = 2
) -> Rollouts:
    """Reads a file of JSON objects {"prompt" or "prompt_ids", "completions": [...]}; other keys are columns.

    A completion is {"text" or "ids", and perhaps "reward" or "rewards", "logps", "mask", "advantage"}. Ids are taken as
    they are; a text becomes tokens after those of the prompt, with the token that ends it.
    length: tokens that the bundle takes; vocabulary: tokens that the model knows; least: completions of a prompt.
    Raises mebp.Error, with the line and the completion, for what cannot be trained on.
    """
    source = Source.of(path)
    path = source.path
    reader = _Reader(PromptTokens(source.files(), tokenizer, vocabulary), tokenizer, length, least)
    entries = list(json_objects(source))
    prompts = reader.prompts(entries)
    rows = []
    for (where, entry), prompt in zip(entries, prompts, strict=True):
        rows.append(reader.rollout(prompt, entry))
        if len(rows[-1].completions) != len(rows[0].completions):
            raise Error(
                f"{where}: has {len(rows[-1].completions)} completions where the first prompt has "
                f"{len(rows[0].completions)}; give each prompt as many"
            )
    every = [each for row in rows for each in row.completions]
    _check_alike(every)
    missing = sum(each.logps is None for each in every)
    notes = []
    if missing:
        notes.append(
            f'{path}: {missing:,} of {len(every):,} completions have no "logps", so they are taken as the policy\'s own'
        )
    parts = (ids for row in rows for ids in (row.prompt.ids, *(each.ids for each in row.completions)))
    return Rollouts(rows, notes + unknown_notes(path, tokenizer, parts))


def as_json(rollout: Rollout) -> dict:
    """The object that load_rollouts reads again as the same."""
    completions = []
    for each in rollout.completions:
        known = {"text": each.text, "ids": each.ids.tolist()}
        if each.logps is not None:
            known["logps"] = _with_null(each.logps)
        if each.rewards is not None:
            known["rewards"] = _with_null(each.rewards)
        if each.advantage is not None:
            known["advantage"] = each.advantage
        if not each.mask.all():
            known["mask"] = each.mask.astype(int).tolist()
        completions.append(known)
    prompt = rollout.prompt
    return {**prompt.columns, "prompt": prompt.written, "prompt_ids": prompt.ids.tolist(), "completions": completions}


def _with_null(values: np.ndarray) -> list[float | None]:
    return [None if math.isnan(each) else each for each in values.tolist()]


class _Reader:
    def __init__(self, tokens: PromptTokens, tokenizer: Tokenizer, length: int, least: int) -> None:
        self._tokens, self._tokenizer, self._length, self._least = tokens, tokenizer, length, least

    def prompts(self, entries: Sequence[tuple[str, dict]]) -> Iterator[Prompt]:
        texts = [read_prompt(where, entry) for where, entry in entries if "prompt_ids" not in entry]
        read = zip(texts, self._tokens.read(texts), strict=True)
        for where, entry in entries:
            check_kept_out(where, entry)
            if "prompt_ids" in entry:
                ids = self._tokens.checked(where, _ids(where, entry, "prompt_ids"), "the prompt")
                written = read_written(where, entry, "prompt") if "prompt" in entry else self._tokenizer.decode(ids)
            else:
                text, (ids, _) = next(read)
                written = text.prompt
            columns = {name: value for name, value in entry.items() if name not in _OWN}
            yield Prompt(where, written, np.array(ids, dtype=np.int32), columns)

    def rollout(self, prompt: Prompt, entry: dict) -> Rollout:
        where = prompt.where
        group = entry.get("completions")
        if not isinstance(group, list) or len(group) < self._least:
            found = kind(group) if not isinstance(group, list) else f"a list of {len(group)}"
            advice = "a group needs at least 2, for an advantage compares them" if self._least > 1 else "give a list"
            raise Error(f'{where}: "completions" is {found}; {advice}')
        places = [f"{where}, completion {number}" for number in range(1, len(group) + 1)]
        return Rollout(prompt, [self._completion(*each, prompt) for each in zip(places, group, strict=True)])

    def _completion(self, where: str, entry: object, prompt: Prompt) -> Completion:
        if not isinstance(entry, dict):
            raise Error(f'{where}: is {kind(entry)}; give {{"text" or "ids", ...}}')
        ids, text = self._written(where, entry, prompt)
        self._tokens.checked(where, ids, "the completion")
        if len(prompt.ids) + len(ids) > self._length:
            raise Error(
                f"{where}: has {len(prompt.ids) + len(ids):,} tokens with its prompt where the bundle takes "
                f"{self._length:,}; leave it out, or compile with a longer --seq-len"
            )
        return Completion(
            where,
            text,
            np.array(ids, dtype=np.int32),
            _mask(where, entry, len(ids)),
            _logps(where, entry, len(ids)),
            _rewards(where, entry),
            None if entry.get("advantage") is None else _number(where, entry["advantage"], '"advantage"'),
        )

    def _written(self, where: str, entry: dict, prompt: Prompt) -> tuple[list[int], str]:
        text = read_string(where, entry, "text") if "text" in entry else None
        if "ids" in entry:
            ids = _ids(where, entry, "ids")
            meant = self._tokenizer.decode(ids)
            if text is not None and text != meant:
                raise Error(f'{where}: its "text" is not what its "ids" say; leave the text out')
            return ids, meant
        if not text:
            raise Error(f'{where}: has no "text" and no "ids"; give one of them, and leave out what is empty')
        ids, ends = [*self._tokenizer.encode(text)], self._tokens.ends.after(prompt.written)
        if ids and ids[-1] not in ends.stop:
            ids.append(ends.end)
        return ids, text


def _ids(where: str, entry: dict, key: str) -> list[int]:
    ids = entry[key]
    if not isinstance(ids, list) or not all(type(each) is int and 0 <= each < _BEYOND for each in ids):
        raise Error(f'{where}: "{key}" is not a list of token ids; give whole numbers of at least 0')
    return ids


def _number(where: str, value: object, name: str) -> float:
    number = as_float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    if number is None or not math.isfinite(number):
        raise Error(f"{where}: {name} is {value!r:.40}; give a finite number")
    if abs(number) > LARGEST_SCORE:
        raise Error(f"{where}: {name} is {number:g}; give one of at most {LARGEST_SCORE:g}")
    return number


def _listed(where: str, entry: dict, key: str, length: int, advice: str = "give one each") -> list:
    values = entry[key]
    if not isinstance(values, list):
        raise Error(f'{where}: "{key}" is {kind(values)}; give a list with a number for each token')
    if len(values) != length:
        raise Error(f'{where}: "{key}" has {len(values):,} numbers for {length:,} tokens; {advice}')
    return values


def _numbers(where: str, entry: dict, key: str, length: int, advice: str) -> np.ndarray:
    """float64 [length], NaN for null."""
    values = _listed(where, entry, key, length, advice)
    return np.array([math.nan if each is None else _number(where, each, f'a number in "{key}"') for each in values])


def _mask(where: str, entry: dict, length: int) -> np.ndarray:
    if entry.get("mask") is None:
        return np.ones(length, dtype=bool)
    values = _listed(where, entry, "mask", length)
    if not all(each in (0, 1) for each in values):
        raise Error(f'{where}: "mask" has something else than 0 and 1; give 0 where a tool wrote the token, else 1')
    return np.array(values, dtype=bool)


def _logps(where: str, entry: dict, length: int) -> np.ndarray | None:
    if entry.get("logps") is None:
        return None
    advice = "give one each" if "ids" in entry else 'give the "ids" that they are of'
    logps = _numbers(where, entry, "logps", length, advice)
    above = np.flatnonzero(logps > 0)
    if len(above):
        raise Error(
            f'{where}: "logps" has {logps[above[0]]:g} at token {above[0] + 1}, and no probability is above 1; '
            "give natural logarithms of probabilities"
        )
    return logps.astype(np.float32)


def _rewards(where: str, entry: dict) -> np.ndarray | None:
    if "reward" in entry and "rewards" in entry:
        raise Error(f'{where}: has both "reward" and "rewards"; keep one of them')
    if "reward" not in entry and "rewards" not in entry:
        return None
    values = entry["rewards"] if "rewards" in entry else [entry["reward"]]
    if not isinstance(values, list) or not values:
        raise Error(f'{where}: "rewards" is {kind(values)}; give a list of numbers')
    return np.array([math.nan if each is None else _number(where, each, "its reward") for each in values])


def _check_alike(every: Sequence[Completion]) -> None:
    """Each completion has as many rewards as the first, and an advantage where that has one."""
    first = every[0]
    for each in every:
        counts = [0 if one.rewards is None else len(one.rewards) for one in (first, each)]
        if counts[0] != counts[1]:
            raise Error(f"{each.where}: has {counts[1]} rewards where the first has {counts[0]}; give each as many")
        if (each.advantage is None) != (first.advantage is None):
            raise Error(f"{each.where}: not all completions have an advantage; give one to each, or to none")
