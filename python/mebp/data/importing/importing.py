# SPDX-License-Identifier: Apache-2.0
"""Exports of chats, written as JSON lines of conversations."""

import json
import math
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from mebp.data.importing.apps import App, chats_of, export_files
from mebp.data.importing.chats import ASSISTANT, USER, Chat, LeftOut
from mebp.data.importing.turns import conversations_of
from mebp.data.stream import opened
from mebp.errors import Error
from mebp.files import replaced_file, user_path
from mebp.outputs import Kind, check_output
from mebp.words import counted, listed

PAUSE = 6.0  # hours: a night, and no afternoon
_CONVERSATIONS = Kind("a file of mebp data import", lambda ends: ends.startswith(b'{"messages": [{"role": "user", '))
_ADVICE = "choose another -o"
_EXPORT_AGAIN = "export the chats again"
_HUMAN = "human"  # what Claude calls the user
_MOST_NAMES = 20  # in a refusal
_People = Counter[tuple[str, str | None]]  # the messages of each name and account


@dataclass
class Imported:
    """What was written, from which apps, whose turns are learned, and what was left out."""

    apps: list[str] = field(default_factory=list)
    learned: str | None = None
    conversations: int = 0
    turns: int = 0  # that are learned
    left_out: Counter[LeftOut] = field(default_factory=Counter)

    def said_left_out(self) -> list[str]:
        """Each thing in words, with its number."""
        return [
            f"{counted(number, what.noun)} {what.which.format(learned=self.learned)}"
            for what, number in self.left_out.items()
            if number
        ]


def import_chats(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    learned: str | None = None,
    pause: float = PAUSE,
    overwrite: bool = False,
) -> Imported:
    """Writes the chats in a file or folder to `output`, as conversations in which the turns of `learned` are the
    assistant's.

    A chat of people is cut where nobody writes for `pause` hours. Raises mebp.Error, with nothing written, for what is
    not an export, where nobody of that name is in it, and where there is nothing to learn.
    """
    path, written = user_path(source), user_path(output)
    if not (math.isfinite(pause) and pause > 0):
        raise Error(f"pause is {pause:g}; give a number of hours above 0")
    files = export_files(path)
    if check_output("-o", written, _CONVERSATIONS, {str(file): file for file in files}) and not overwrite:
        raise Error(f"-o {written}: exists already; add --overwrite to replace it or choose another")
    with replaced_file(written, _ADVICE) as unfinished, unfinished.open("w", encoding="utf-8") as out:
        return _import(path, files, out, learned, pause * 3600)


def _import(path: Path, files: list[Path], out: TextIO, learned: str | None, pause: float) -> Imported:
    found, people, asked = Imported(), Counter(), False
    for app, chat in _chats(files):
        if app.name not in found.apps:
            found.apps.append(app.name)
        people.update((message.author, message.account) for message in chat.messages if message.text)
        found.left_out += chat.left_out
        author = USER if learned == _HUMAN and app.learned else learned or app.learned
        if author is None:
            asked = True  # after all names are known
            continue
        found.learned = f"the {author}" if app.learned else author
        for turns in conversations_of(chat, author, pause, found.left_out):
            out.write(json.dumps({"messages": turns}, ensure_ascii=False) + "\n")
            found.conversations += 1
            found.turns += sum(turn["role"] == ASSISTANT for turn in turns)
    if not people:
        raise Error(f"{path}: has no messages; give another export")
    if asked:
        raise Error(f"{path}: give --as NAME, whose turns are to be learned; in it are {_listed_names(people)}")
    if learned is not None:
        _check_name(path, USER if learned == _HUMAN and found.learned == f"the {USER}" else learned, people)
    if not found.conversations:
        raise Error(f"{path}: {found.learned} answers nobody in it, so there is nothing to learn; choose another --as")
    return found


def _check_name(path: Path, learned: str, people: _People) -> None:
    """Raises mebp.Error where nobody is called so, or several are."""
    named = Counter({account: number for (name, account), number in people.items() if name == learned})
    if not named and learned not in {account for _, account in people}:
        raise Error(f"--as {learned}: nobody of that name is in {path}; in it are {_listed_names(people)}")
    named.pop(None, None)  # of an app that has names alone
    if len(named) > 1:
        raise Error(f"--as {learned}: {len(named)} people in {path} have that name; choose one of {_listed(named)}")


def _listed_names(people: _People) -> str:
    names: Counter[str] = Counter()
    for (name, _), number in people.items():
        names[name] += number
    return _listed(names)


def _chats(files: list[Path]) -> Iterator[tuple[App, Chat]]:
    for path in files:
        with opened(path, _EXPORT_AGAIN) as file:
            yield from chats_of(path, file)


def _listed(names: Counter[str]) -> str:
    shown = [f"{name} ({counted(number, 'message')})" for name, number in names.most_common(_MOST_NAMES)]
    more = len(names) - len(shown)
    return f"{', '.join(shown)} and {more:,} more" if more else listed(shown, "and")
