# SPDX-License-Identifier: Apache-2.0
"""WhatsApp's _chat.txt: a line for each message, with date, time and name as the phone writes them.

iOS writes `[31/12/2024, 21:05:09] NAME: text`, Android `31/12/24, 21:05 - NAME: text`; order and separators of the date
are those of the phone's language. Lines without a date belong to the message before them.
"""

import re
from array import array
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from mebp.data.importing.chats import AGAIN, Chat
from mebp.errors import Error

_MARKS = "\u200e\u200f\u202a\u202b\ufeff"  # of direction, which no screen shows
_DATE = r"(\d{1,4})[./-]\s?(\d{1,2})[./-]\s?(\d{1,4})"
_TIME = r"(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?(?:\s?([^\W\d])\.?\s?m\.?)?"  # 9:05, 21.05.09, 9:05 PM, 9:05 p. m.
_MOMENT = rf"{_DATE}\.?,?\s(?:[^\W\d]+\s)?{_TIME}"  # Finnish has a word between
_HEADER = re.compile(rf"[{_MARKS}]*(?:\[{_MOMENT}\]|{_MOMENT}\s[-–])(?:\s|$)", re.IGNORECASE)
_NAME = re.compile(rf"[{_MARKS}]*(?:~\s?)?([^:]{{1,100}}):(?:\s|$)")  # ~ is before whoever is not among the contacts

# In place of what is no text. iOS begins each with a mark; of Android's those in English are known.
_MARK = "\u200e"
_NOTE = re.compile(
    r"<[^<>]{1,60}>|(?:IMG|VID|AUD|PTT|STK|GIF|DOC)-\d{8}-WA\d+\.\w* \(.+\)|.{1,200} \(file attached\)|null|"
    r"[^•\u200e]{1,200} • \u200e?[^•\u200e]{1,40}\u200e.*|"  # a document, with its pages
    r"(?:image|video|audio|sticker|GIF|document|Contact card) omitted|"
    r"(?:This message was deleted|You deleted this message|Missed (?:voice|video) call)\.?"
)
_AFTER = re.compile(r"(?:\u200e<[^<>]*>|<This message was edited>)$")  # a file's name, or that it was edited

_YEAR_LAST, _YEAR_FIRST = ((2, 1, 0), (2, 0, 1)), ((0, 1, 2),)  # the places of year, month and day
_CENTURY = 2000


def begins(line: str) -> bool:
    """Whether a file that begins with this line is such an export."""
    return _HEADER.match(line) is not None


def read(where: str, lines: Iterable[tuple[int, str]]) -> Iterator[Chat]:
    """The one chat in a file's numbered lines."""
    chat, dates = Chat(), _Dates()
    found = []
    for number, header, written in _entries(lines):
        name = _NAME.match(written[0])
        if name:  # and else a line of the app's
            dates.add(f"{where}:{number}", header)
            found.append((_typed(name[1]), _text([written[0][name.end() :], *written[1:]])))
    for (name, text), time in zip(found, dates.times(), strict=True):
        chat.add(name, text, time)
    yield chat


def _entries(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str | None], list[str]]]:
    """What begins with a date: the number of its line, the fields of the date, and the lines of the text."""
    current = None
    for number, line in lines:
        header = _HEADER.match(line)
        if header:
            if current:
                yield current
            half = len(header.groups()) // 2
            fields = header.groups()[:half] if header[1] else header.groups()[half:]
            current = number, fields, [line[header.end() :].rstrip("\r\n")]
        elif current:
            current[2].append(line.rstrip("\r\n"))
    if current:
        yield current


def _typed(name: str) -> str:
    """A name as one would type it: numbers of phones have marks around them, and other spaces in them."""
    return " ".join(name.strip(_MARKS + "\u202c").split())


def _text(lines: list[str]) -> str:
    own = [line for line in lines if not line.startswith(_MARK)]
    if len(own) == len(lines) and _NOTE.fullmatch(own[0].strip()):
        own = own[1:]  # what was written beside a picture
    return _AFTER.sub("", "\n".join(own).rstrip())


class _Dates:
    """The time of each message, by each order of day, month and year that fits all dates so far."""

    def __init__(self) -> None:
        self._times: dict[tuple[int, int, int], array] = {}
        self._backwards: dict[tuple[int, int, int], int] = {}

    def add(self, where: str, fields: tuple[str | None, ...]) -> None:
        date = [int(field) for field in fields[:3]]
        hour, minute, second = (int(field or 0) for field in fields[3:6])
        if fields[6]:
            hour = hour % 12 + 12 * (fields[6].lower() == "p")
        if not self._times:
            orders = _YEAR_FIRST if date[0] > 31 else _YEAR_LAST
            self._times = {order: array("d") for order in orders}
            self._backwards = dict.fromkeys(orders, 0)
        for order, times in list(self._times.items()):
            year, month, day = (date[place] for place in order)
            year += _CENTURY if year < 100 else 0
            try:
                time = datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
            except (ValueError, OverflowError) as error:
                if len(self._times) == 1:
                    written = "/".join(fields[:3])
                    raise Error(
                        f"{where}: has the date {written}, which is no day where the dates before it are; {AGAIN}"
                    ) from error
                del self._times[order]
                continue
            self._backwards[order] += bool(times) and time < times[-1]
            times.append(time)

    def times(self) -> array:
        """By the order in which time runs backwards least often."""
        if not self._times:
            return array("d")
        return self._times[min(self._times, key=self._backwards.__getitem__)]
