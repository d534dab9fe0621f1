# SPDX-License-Identifier: Apache-2.0
"""Patterns of layers' names, as PEFT's alpha_pattern has them, matched in a time that nothing in them can make explode.

Python's `re` tries the ways to match one after another, and a stranger's pattern can have 2^n of them. This keeps the
set of all places where a match may be, for all patterns at once, and remembers which set follows which.
"""

import re
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache

from mebp.errors import Error

_MOST, _LONGEST, _SECONDS = 200, 500, 1.0
_ADVICE = "name the layers"
_REPETITIONS = ("*", "+", "?")

_Test = Callable[[str], object]  # whether a character is taken


@dataclass
class _Group:
    start: int
    end: int
    at: int  # where what follows goes on
    atom: tuple[int, int, bool] | None = None  # what `*` would repeat: from, to, whether it has a repetition itself
    repeats: bool = False


@dataclass
class _Set:
    places: frozenset[int]
    next: dict[str, "_Set"] = field(default_factory=dict)


class LayerPatterns:
    """Matches as PEFT does: the whole of a name, or what is behind one of its dots."""

    def __init__(self, what: str, patterns: Iterable[str]) -> None:
        """what: how an error begins, with the file and the key. Raises mebp.Error for a pattern that is not taken."""
        self._what, self._until = what, time.thread_time() + _SECONDS
        self._patterns = list(patterns)
        if len(self._patterns) > _MOST:
            raise Error(f"{what} has {len(self._patterns)} patterns, and {_MOST} at most are read; name most layers by "
                        "fewer")  # fmt: skip
        self._sets: dict[frozenset[int], _Set] = {}
        # What leads from a place to others: by a character, always, at the beginning of a name, and at its end.
        self._places, self._number_of_end = 0, dict[int, int]()
        self._takes: defaultdict[int, list[tuple[_Test, int]]] = defaultdict(list)
        self._free, self._at_start, self._at_end = (defaultdict[int, list[int]](list) for _ in range(3))
        start, before, inside = self._new(), self._new(), self._new()  # (.*\\.)? before all of them
        self._free[start] += [before, inside]
        self._takes[before] += [(_is_in_line, before), (".".__eq__, inside)]
        for number, pattern in enumerate(self._patterns):
            self._check_length(pattern)
            self._number_of_end[self._parse(pattern, inside)] = number
        self._start = self._reach([start], at_start=True)

    def first_match(self, name: str) -> str | None:
        """The first of the patterns that matches. Raises mebp.Error where all names together take too long."""
        here = self._start
        for character in name:
            self._check_time()
            if (follows := here.next.get(character)) is None:
                taken = [to for place in here.places for test, to in self._takes.get(place, ()) if test(character)]
                follows = here.next[character] = self._reach(taken)
            here = follows
        ends = self._reach(here.places, at_start=not name, at_end=True).places & self._number_of_end.keys()
        return self._patterns[min(self._number_of_end[end] for end in ends)] if ends else None

    def _check_time(self) -> None:
        if time.thread_time() > self._until:
            raise Error(f"{self._what} has patterns that take more than {_SECONDS:g} s; {_ADVICE} in fewer and simpler "
                        "ones")  # fmt: skip

    def _reach(self, places: Iterable[int], at_start: bool = False, at_end: bool = False) -> _Set:
        edges = [self._free, *([self._at_start] if at_start else []), *([self._at_end] if at_end else [])]
        found, waiting = set(places), list(places)
        while waiting:
            place = waiting.pop()
            for each in edges:
                for to in each.get(place, ()):
                    if to not in found:
                        found.add(to)
                        waiting.append(to)
        return self._sets.setdefault(frozenset(found), _Set(frozenset(found)))

    def _new(self) -> int:
        self._places += 1
        return self._places - 1

    def _check_length(self, pattern: str) -> None:
        if len(pattern) > _LONGEST:
            raise Error(f"{self._what}: pattern '{pattern[:50]}...' has {len(pattern)} characters, and {_LONGEST} at "
                        f"most are read; {_ADVICE} by shorter ones")  # fmt: skip

    def _parse(self, pattern: str, start: int) -> int:
        """Adds the pattern's places behind `start`, and returns the last one."""
        own = self._new()
        self._free[start].append(own)
        groups = [_Group(own, self._new(), own)]
        at = 0
        while at < len(pattern):
            self._check_time()
            group, character = groups[-1], pattern[at]
            length = 1
            if character == "(":
                length = 3 if pattern.startswith("(?:", at) else 1
                inner = self._new()
                groups.append(_Group(inner, self._new(), inner))
            elif character == ")" and len(groups) > 1:
                self._free[group.at].append(group.end)
                groups.pop()
                self._put(groups[-1], group.start, group.end, group.repeats)
            elif character == "|":
                self._free[group.at].append(group.end)
                group.at, group.atom = group.start, None
            elif character in _REPETITIONS and group.atom:
                self._repeat(pattern, group, character)
                length = 2 if pattern.startswith("?", at + 1) else 1  # as few as can be: the whole name decides
            elif character in "^$":
                to = self._new()
                (self._at_start if character == "^" else self._at_end)[group.at].append(to)
                group.at, group.atom = to, None
            else:
                length = self._put_character(pattern, at, group)
            at += length
        if len(groups) > 1:
            self._refuse(pattern, "a group that does not end")
        self._free[groups[0].at].append(groups[0].end)
        return groups[0].end

    def _put(self, group: _Group, start: int, end: int, repeats: bool) -> None:
        """Appends what leads from `start` to `end` to a group."""
        self._free[group.at].append(start)
        group.at, group.atom, group.repeats = end, (start, end, repeats), group.repeats or repeats

    def _repeat(self, pattern: str, group: _Group, how: str) -> None:
        start, end, repeats = group.atom
        if how != "?":
            if repeats:
                self._refuse(pattern, "a repetition inside a repetition")
            self._free[end].append(start)
        if how != "+":
            self._free[start].append(end)
        group.atom, group.repeats = None, True

    def _put_character(self, pattern: str, at: int, group: _Group) -> int:
        """Of a character, an escape or a class; how long it is."""
        found = _CHARACTER.match(pattern, at)
        test = _test_of(found[0]) if found else None
        if test is None:
            self._refuse(pattern, f"'{pattern[at : at + 10]}'")
        behind, end = at + len(found[0]), self._new()
        if pattern[behind : behind + 1] in _REPETITIONS:
            start = self._new()
            self._put(group, start, end, repeats=False)
        else:
            start, group.at, group.atom = group.at, end, None
        self._takes[start].append((test, end))
        return len(found[0])

    def _refuse(self, pattern: str, has: str) -> None:
        raise Error(
            f"{self._what}: pattern '{pattern}' has {has}, and only names, '.', '*', '+', '?', '|', classes, and "
            f"groups without a repetition inside a repetition are read; {_ADVICE} by such ones"
        )


# A class, an escape that stands for characters, or one character.
_CHARACTER = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]|\\[dDwWsS]|\\[^A-Za-z0-9]|[^\\\[\](){}*+?|^$]", re.DOTALL)


def _is_in_line(character: str) -> bool:
    return character != "\n"


@cache
def _test_of(text: str) -> _Test | None:
    """None where it is not a class."""
    if text == ".":
        return _is_in_line
    if len(text) == 1:
        return text.__eq__
    if text[0] == "\\" and not text[1].isalpha():
        return text[1].__eq__
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what may mean something else in a later Python
            return re.compile(text).fullmatch
    except (re.error, Warning):
        return None
