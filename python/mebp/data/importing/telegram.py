# SPDX-License-Identifier: Apache-2.0
"""Telegram Desktop's result.json: one chat, or an account with all of its chats."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from mebp.data.importing.chats import AGAIN, FORWARDED, Chat, checked, named, value_of
from mebp.errors import Error

_LISTS = ("chats", "left_chats")
_READ = ("type", "from", "from_id", "text", "date_unixtime", "date", "forwarded_from")  # of a message
_NOBODY = "Deleted Account"  # as the app shows one


def read(where: str, export: Mapping[str, object]) -> Iterator[Chat]:
    if "messages" in export:
        yield _chat(named(where, export.get("name")), export)
    for key in _LISTS:
        if key in export:
            chats = value_of(f"{where}: {key}", value_of(where, export, key, dict), "list", list)
            for index, given in enumerate(chats):
                place = f"{where}: {key}.list[{index}]"
                chat = checked(place, given, dict)
                yield _chat(named(place, chat.get("name")), chat)


def shrunk(entry: dict) -> dict:
    """A message without what nobody reads, and anything else as it is."""
    if "from_id" not in entry:
        return entry
    return {key: entry[key] for key in _READ if key in entry}


def _chat(where: str, entry: Mapping[str, object]) -> Chat:
    chat = Chat()
    for index, given in enumerate(value_of(where, entry, "messages", list)):
        place = f"{where}: messages[{index}]"
        message = checked(place, given, dict)
        if value_of(place, message, "type", str) != "message":
            continue  # somebody joined, called or changed a title
        account = _account(message.get("from_id"))
        author = checked(f'{place}: "from"', message.get("from") or account or _NOBODY, str)
        forwarded = FORWARDED if "forwarded_from" in message else None
        chat.add(author, _text(place, message), _time(place, message), account, forwarded)
    return chat


def _account(given: object) -> str | None:
    """user7, which older exports write as 7."""
    if isinstance(given, int) and not isinstance(given, bool):
        return f"user{given}"
    return given if isinstance(given, str) and given else None


def _text(where: str, message: Mapping[str, object]) -> str:
    """A string, or a list of strings and of links, names and the like with their text."""
    text = message.get("text")
    if isinstance(text, str):
        return text
    parts = enumerate(value_of(where, message, "text", list))
    return "".join(part if isinstance(part, str) else _styled(f"{where}: text[{index}]", part) for index, part in parts)


def _styled(where: str, part: object) -> str:
    return value_of(where, checked(where, part, dict), "text", str)


def _time(where: str, message: Mapping[str, object]) -> float:
    """Where the seconds are not there, the date, which is in the time of whoever exported it."""
    key = "date_unixtime" if "date_unixtime" in message else "date"
    written = value_of(where, message, key, str)
    try:
        return float(int(written)) if key == "date_unixtime" else datetime.fromisoformat(written + "+00:00").timestamp()
    except (ValueError, OverflowError) as error:
        raise Error(f'{where}: "{key}" is "{written}", which is no time; {AGAIN}') from error
