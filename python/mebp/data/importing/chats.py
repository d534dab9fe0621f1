# SPDX-License-Identifier: Apache-2.0
"""What every app's export becomes: chats with messages, each by somebody."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from mebp.data.json_values import kind
from mebp.errors import Error

ASSISTANT, USER = "assistant", "user"  # the two who write in a chat with a model


class LeftOut(NamedTuple):
    """A reason to leave something out: what it is, and which. {learned} is who is learned."""

    noun: str
    which: str


WITHOUT_TEXT = LeftOut("message", "without text")
FORWARDED = LeftOut("message", "that somebody forwarded")
BEHIND_THE_SCENES = LeftOut("message", "of tools, thoughts or the system")
REPLACED = LeftOut("message", "that somebody edited or asked for anew")
ATTACHED = LeftOut("file", "beside a text")

AGAIN = "export the chat again, or remove it from the file"
_KINDS = {str: "a string", list: "a list", dict: "an object"}
_Value = TypeVar("_Value", str, list, dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One whose text is left out is there without it: the next one may answer it."""

    author: str
    text: str
    time: float | None = None  # in seconds, where pauses between messages mean something
    account: str | None = None  # tells people of one name apart, where the app does

    def is_by(self, learned: str) -> bool:
        return learned in (self.author, self.account)


@dataclass
class Chat:
    """Messages in their order."""

    messages: list[Message] = field(default_factory=list)
    left_out: Counter[LeftOut] = field(default_factory=Counter)

    def add(
        self,
        author: str,
        text: str,
        time: float | None = None,
        account: str | None = None,
        unless: LeftOut | None = None,
    ) -> None:
        """A message, whose text is left out if it is empty, or for the reason `unless`."""
        text = "" if unless else _whole(text).strip()
        if not text:
            self.left_out[unless or WITHOUT_TEXT] += 1
        self.messages.append(Message(sys.intern(_whole(author)), text, time, account and sys.intern(account)))


def branch(where: str, last: str, parent_of: Callable[[str], str | None]) -> list[str]:
    """The names of the messages from the first to the last, by what each of them follows."""
    names: dict[str, None] = {}
    name: str | None = last
    while name is not None:
        if name in names:
            raise Error(f'{where}: message "{name}" follows itself, by way of its parents; {AGAIN}')
        names[name] = None
        name = parent_of(name)
    return list(reversed(names))


def _whole(text: str) -> str:
    """Apps cut a text in the middle of a pair of surrogates, and half of one is no character."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def value_of(where: str, entry: Mapping[str, object], key: str, wanted: type[_Value]) -> _Value:
    """What is in entry[key]; raises mebp.Error where it is missing or of another type."""
    if key not in entry:
        raise Error(f'{where}: has no "{key}"; {AGAIN}')
    return checked(f'{where}: "{key}"', entry[key], wanted)


def checked(what: str, value: object, wanted: type[_Value]) -> _Value:
    """`value`, which is called `what` in an error."""
    if not isinstance(value, wanted):
        raise Error(f"{what} is {kind(value)} where {_KINDS[wanted]} was expected; {AGAIN}")
    return value


def named(where: str, name: object) -> str:
    """`where` with the name that the app shows for it."""
    return f'{where} ("{name}")' if isinstance(name, str) and name else where
