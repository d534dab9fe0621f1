# SPDX-License-Identifier: Apache-2.0
"""What every app's export becomes: chats with messages, each by somebody."""

import sys
from collections import Counter
from collections.abc import Mapping
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
ATTACHED = LeftOut("file", "beside a text")

AGAIN = "export the chat again, or remove it from the file"
_KINDS = {str: "a string", list: "a list", dict: "an object"}
_Value = TypeVar("_Value", str, list, dict)


@dataclass(frozen=True, slots=True)
class Message:
    author: str
    text: str
    time: float | None = None  # in seconds, where pauses between messages mean something


@dataclass
class Chat:
    """Messages in their order."""

    messages: list[Message] = field(default_factory=list)
    left_out: Counter[LeftOut] = field(default_factory=Counter)

    def add(self, author: str, text: str, time: float | None = None) -> None:
        """A message, or one more WITHOUT_TEXT."""
        text = _whole(text).strip()
        if text:
            self.messages.append(Message(sys.intern(_whole(author)), text, time))
        else:
            self.left_out[WITHOUT_TEXT] += 1


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
