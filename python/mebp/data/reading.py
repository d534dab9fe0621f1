# SPDX-License-Identifier: Apache-2.0
"""Data files: plain text, or JSON lines of one form."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mebp.errors import Error
from mebp.files import read_text

ROLES = ("system", "user", "assistant", "tool")
_FORMS = (("text",), ("prompt", "completion"), ("messages",))
_WANTED = 'give "text", "prompt" and "completion", or "messages"'


@dataclass(frozen=True)
class Document:
    """A text on its own."""

    where: str  # the file, and the line where there are several
    text: str


@dataclass(frozen=True)
class Completion:
    """A prompt, and how it goes on."""

    where: str
    prompt: str
    completion: str


@dataclass(frozen=True)
class Conversation:
    """Turns {"role", "content"}, at least one of them the assistant's."""

    where: str
    messages: Sequence[Mapping[str, object]]


Sample = Document | Completion | Conversation


def read_samples(path: Path) -> list[Sample]:
    """All samples of a file, at least one and all of one form: .jsonl and .json are JSON lines, all else is text.

    Raises mebp.Error, with the line, for what cannot be read.
    """
    text = read_text(path, "check the path")
    if not text.strip():
        raise Error(f"{path}: has no text; give another file")
    if path.suffix not in (".jsonl", ".json"):
        return [Document(str(path), text)]
    samples, first, first_form = [], 0, ()
    # str.splitlines would also split at separators that JSON allows within a string.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        entry = _parse(where, line)
        form = _form(where, entry)
        if first and form != first_form:
            raise Error(f"{where}: has {_names(form)} where line {first} has {_names(first_form)}; keep to one of them")
        if not first:
            first, first_form = number, form
        samples.append(_sample(where, form, entry))
    return samples


def _parse(where: str, line: str) -> dict:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Error(f"{where}: is not JSON ({error}); write one object a line") from error
    if not isinstance(entry, dict):
        raise Error(f"{where}: is {_kind(entry)}; write one object a line")
    return entry


def _form(where: str, entry: dict) -> tuple[str, ...]:
    begun = [form for form in _FORMS if any(key in entry for key in form)]
    if not begun:
        found = f"has {_names(entry)}" if entry else "is empty"
        raise Error(f"{where}: {found}; {_WANTED}")
    if len(begun) > 1:
        both = " and ".join(f'"{next(key for key in form if key in entry)}"' for form in begun[:2])
        raise Error(f"{where}: has both {both}; keep one of them")
    missing = next((key for key in begun[0] if key not in entry), None)
    if missing:
        raise Error(f'{where}: has no "{missing}"; {_WANTED}')
    return begun[0]


def _sample(where: str, form: tuple[str, ...], entry: dict) -> Sample:
    if form == ("text",):
        return Document(where, _string(where, entry, "text"))
    if form == ("messages",):
        if entry.get("tools"):
            raise Error(f'{where}: "tools" is not in this build; write them into the system\'s turn')
        return Conversation(where, _messages(where, entry["messages"]))
    prompt, completion = (_string(where, entry, key) for key in form)
    if not completion:
        raise Error(f'{where}: "completion" is empty, so there is nothing to learn; leave the line out')
    return Completion(where, prompt, completion)


def _messages(where: str, messages: object) -> list[dict]:
    if not isinstance(messages, list):
        raise Error(f'{where}: "messages" is {_kind(messages)}; give a list of {{"role", "content"}}')
    for index, message in enumerate(messages):
        place = f"{where}: messages[{index}]"
        if not isinstance(message, dict):
            raise Error(f'{place} is {_kind(message)}; give {{"role", "content"}}')
        for key in ("role", "content"):
            if key not in message:
                raise Error(f'{place} has no "{key}"; give {{"role", "content"}}')
            _string(place, message, key)
        if message["role"] not in ROLES:
            raise Error(f'{place} has the role "{message["role"]}"; choose one of {", ".join(ROLES)}')
    if not any(message["role"] == "assistant" for message in messages):
        raise Error(f"{where}: has no turn of the assistant, so there is nothing to learn; leave the line out")
    return messages


def _string(where: str, entry: dict, key: str) -> str:
    value = entry[key]
    if not isinstance(value, str):
        raise Error(f'{where}: "{key}" is {_kind(value)}; give a string')
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Error(f'{where}: "{key}" holds half of a surrogate pair at character {error.start}; mend it') from error
    return value


def _names(keys: Mapping | tuple) -> str:
    return " and ".join(f'"{key}"' for key in keys)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
