# SPDX-License-Identifier: Apache-2.0
"""What a sample says is right: words that an answer has to contain, a pattern, or one of several choices."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mebp.data.json_values import kind
from mebp.errors import Error

ACCEPT, MATCH, CHOICES, ANSWER = "accept", "match", "choices", "answer"
KEYS = (ACCEPT, MATCH, CHOICES)


class Check(Protocol):
    """Says whether an answer is right; `right` is a right one, in whole, where the check itself has one."""

    @property
    def right(self) -> str | None: ...

    def passes(self, answer: str) -> bool: ...


@dataclass(frozen=True)
class Accepted:
    """One of `texts` stands in the answer, as whole words and in any case."""

    texts: Sequence[str]

    @property
    def right(self) -> str | None:
        return self.texts[0]

    def passes(self, answer: str) -> bool:
        return any(re.search(rf"(?<!\w){re.escape(text)}(?!\w)", answer, re.IGNORECASE) for text in self.texts)


@dataclass(frozen=True)
class Matched:
    """One of `texts` matches the answer in one of the WAYS."""

    way: str
    texts: Sequence[str]

    @property
    def right(self) -> str | None:
        return self.texts[0] if self.way == "exact" else None

    def passes(self, answer: str) -> bool:
        return any(WAYS[self.way](answer, text) for text in self.texts)


@dataclass(frozen=True)
class Choices:
    """The model does not write: the likeliest of `texts` is its answer."""

    texts: Sequence[str]
    index: int  # of the right one

    @property
    def right(self) -> str | None:
        return self.texts[self.index]

    def passes(self, answer: str) -> bool:
        return answer == self.right


WAYS: Mapping[str, Callable[[str, str], bool]] = {
    "exact": lambda answer, text: " ".join(answer.split()) == " ".join(text.split()),
    "contains": lambda answer, text: text in answer,
    "regex": lambda answer, text: re.search(text, answer) is not None,
}
_WAYS = " or ".join(f'{{"{way}": TEXT}}' for way in WAYS)


def read_check(where: str, entry: Mapping[str, object], written: str | None) -> Check | None:
    """What the sample `entry` says is right; None where it says nothing.

    written: the answer that stands in the sample, which may name the right choice, or what "exact" is about.
    Raises mebp.Error, with `where`, for what can never be met.
    """
    given = [key for key in KEYS if entry.get(key) is not None]
    if CHOICES in given:
        if len(given) > 1:
            raise Error(f'{where}: has both "{CHOICES}" and "{given[0]}"; keep one of them')
        return _read_choices(where, entry, written)
    match = entry.get(MATCH)
    if isinstance(match, str):  # how `accept`, or the answer that is there, is compared
        _check_way(where, match)
        if ACCEPT in given:
            texts = _texts(where, ACCEPT, entry[ACCEPT])
        elif written is None:
            raise Error(f'{where}: "{MATCH}" does not say what it matches; give {_WAYS}')
        else:
            texts = [written]
        return _matched(where, match, texts)
    if MATCH in given:
        if ACCEPT in given:
            raise Error(f'{where}: has both "{ACCEPT}" and "{MATCH}"; keep one of them')
        if not isinstance(match, dict) or len(match) != 1:
            found = f"{len(match)} entries" if isinstance(match, dict) else kind(match)
            raise Error(f'{where}: "{MATCH}" is {found}; give {_WAYS}')
        ((way, texts),) = match.items()
        _check_way(where, way)
        return _matched(where, way, _texts(where, f'{MATCH}": "{way}', [texts] if isinstance(texts, str) else texts))
    return Accepted(_texts(where, ACCEPT, entry[ACCEPT])) if ACCEPT in given else None


def _check_way(where: str, way: str) -> None:
    if way not in WAYS:
        raise Error(f'{where}: "{MATCH}" is "{way}"; give {_WAYS}')


def _matched(where: str, way: str, texts: Sequence[str]) -> Matched:
    for text in texts if way == "regex" else ():
        try:
            re.compile(text)
        except (re.error, RecursionError, OverflowError) as error:
            raise Error(f'{where}: "{text}" is not a regular expression ({error}); correct it') from error
    return Matched(way, texts)


def _texts(where: str, key: str, value: object) -> Sequence[str]:
    """Of which one has to be there; an empty one would be in every answer."""
    if not isinstance(value, list):
        raise Error(f'{where}: "{key}" is {kind(value)}; give a list of answers, ["...", ...]')
    if not value:
        raise Error(f'{where}: "{key}" is empty, so no answer can be right; give a list of answers, ["...", ...]')
    for index, each in enumerate(value):
        if not isinstance(each, str) or not each.strip():
            found = "is empty" if isinstance(each, str) else f"is {kind(each)}"
            raise Error(f'{where}: entry {index} of "{key}" {found}; give a text, or leave it out')
    return value


def _read_choices(where: str, entry: Mapping[str, object], written: str | None) -> Choices:
    texts = _texts(where, CHOICES, entry[CHOICES])
    if len(texts) < 2:
        raise Error(f'{where}: "{CHOICES}" has one entry, which is always the likeliest; give several')
    if len(set(texts)) < len(texts):
        raise Error(f'{where}: "{CHOICES}" has the same entry twice; leave one out')
    wanted = f'give "{ANSWER}", a number from 0 to {len(texts) - 1} or one of the texts'
    answer = written if entry.get(ANSWER) is None else entry[ANSWER]
    if isinstance(answer, str) and answer in texts:
        return Choices(texts, texts.index(answer))
    if type(answer) is int and 0 <= answer < len(texts):
        return Choices(texts, answer)
    found = f'none of "{CHOICES}" is "{answer}"' if isinstance(answer, str) else f'"{CHOICES}" without a right one'
    found = f'"{ANSWER}" is {answer}' if type(answer) in (int, float) else found
    raise Error(f"{where}: {found}; {wanted}")
