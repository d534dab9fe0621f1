# SPDX-License-Identifier: Apache-2.0
"""A file of data from its beginning to its end, a little at a time: it may be larger than the memory."""

import codecs
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mebp.data.arrow import find_kind, rows_of_arrow
from mebp.data.content import check_no_nul, check_text
from mebp.errors import Error, json_trouble, translate_errors
from mebp.files import file_version

WANTED = "write one object a line, or one array of objects"
_BLOCK = 1 << 16  # bytes that are read at once, and in which the beginning of a file tells what it is
_BLANK = re.compile(r"[ \t\r\n]*")
_MARK = codecs.BOM_UTF8  # that some editors put first
_UNSURE = 16  # characters; JSON that is cut off is wrong at most so far before its end


class DataFile:
    """The text of an open file, in UTF-8; each of its methods reads it, so that one of them can be called once."""

    def __init__(self, path: Path, file: BinaryIO, wanted: str) -> None:
        self.path, self._file, self._wanted = path, file, wanted
        head = file.peek(_BLOCK)[:_BLOCK]
        self.arrow = find_kind(head)  # a table that is no text, and has no head
        if not self.arrow:
            check_text(path, head)
        self.head = "" if self.arrow else head.removeprefix(_MARK).decode(errors="replace")

    def blocks(self) -> Iterator[str]:
        """The text in parts of 64 KiB."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        offset, line = 0, 1
        while True:
            content = self._file.read(_BLOCK)
            check_no_nul(self.path, line, offset, content)
            held = len(decoder.getstate()[0])  # bytes of a character that the last part has cut
            try:
                text = decoder.decode(content, final=not content)
            except UnicodeDecodeError as error:
                number = line + error.object.count(b"\n", 0, error.start)
                raise self._not_text(number, offset - held + error.start) from error
            yield text if offset else text.removeprefix("\ufeff")
            if not content:
                return
            offset += len(content)
            line += content.count(b"\n")

    def text(self) -> str:
        content = self._file.read()  # at once: parts of it and the whole take the memory twice
        check_no_nul(self.path, 1, 0, content)
        try:
            return content.decode().removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise self._not_text(1 + content.count(b"\n", 0, error.start), error.start) from error

    def entries(self, shrink: Callable[[dict], dict] | None = None) -> Iterator[tuple[int, object]]:
        """Each value of JSON, with the line that it begins in, or row of an Arrow table; raises mebp.Error for what is
        neither. Where all of a file is one object, each object in it is replaced by what `shrink` makes of it."""
        if self.arrow:
            yield from rows_of_arrow(self.path, self.arrow, self._file)
            return
        begin = self.head.lstrip()
        if begin.startswith("["):
            yield from _Array(self.path, self.blocks(), self._wanted).entries()
        elif re.match(r"\{[ \t\r]*\n", begin):  # one object, spread over lines
            text = self.text()
            line = 1 + text[: text.index("{")].count("\n")
            value = self._parse(1, text, shrink)
            del text  # which may take more memory than the value
            yield line, value
        else:
            yield from ((number, self._parse(number, line)) for number, line in self._lines())

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Those that are not blank, without their ends."""
        for number, line in self.lines():
            if line.strip():
                yield number, line.removesuffix("\n")

    def lines(self) -> Iterator[tuple[int, str]]:
        """Each with its number. str.splitlines would also split at separators that JSON allows within a string."""
        offset = 0
        for number, content in enumerate(self._file, 1):
            check_no_nul(self.path, number, offset, content)
            try:
                line = content.decode()
            except UnicodeDecodeError as error:
                raise self._not_text(number, offset + error.start) from error
            yield number, line if offset else line.removeprefix("\ufeff")
            offset += len(content)

    def _parse(self, first_line: int, text: str, shrink: Callable[[dict], dict] | None = None) -> object:
        try:
            return json.loads(text, object_hook=shrink)
        except json.JSONDecodeError as error:
            raise _not_json(
                self.path, first_line + error.lineno - 1, json_trouble(error), error.colno, self._wanted
            ) from error
        except (ValueError, RecursionError) as error:
            raise Error(f"{self.path}:{first_line}: is not JSON ({json_trouble(error)}); {self._wanted}") from error

    def _not_text(self, line: int, offset: int) -> Error:
        return Error(f"{self.path}:{line}: is not UTF-8 at byte {offset} of the file; convert it")


@contextmanager
def opened(path: Path, wanted: str = WANTED) -> Iterator[DataFile]:
    """`wanted` is what to do about a file that is not JSON where it has to be.

    Raises mebp.Error, too, where the file changes meanwhile: what was read may be half of one version.
    """
    with translate_errors(f"{path}: cannot be read", "check the path"), path.open("rb", buffering=_BLOCK) as file:
        before = os.fstat(file.fileno())
        yield DataFile(path, file, wanted)
        after = os.fstat(file.fileno())
    if stat.S_ISREG(before.st_mode) and file_version(before) != file_version(after):
        raise Error(f"{path}: changed while it was read; try again when nothing writes to it")


def _not_json(path: Path, line: int, what: str, column: int, wanted: str) -> Error:
    return Error(f"{path}:{line}: is not JSON ({what}, column {column}); {wanted}")


class _Array:
    """The entries of one array, of which no more is held than the entry that is being read."""

    def __init__(self, path: Path, blocks: Iterator[str], wanted: str) -> None:
        self._path, self._blocks, self._wanted = path, blocks, wanted
        self._text, self._position = "", 0
        self._line, self._column = 1, 0  # of the text's first character; columns are counted from 0
        self._ended = False

    def entries(self) -> Iterator[tuple[int, object]]:
        self._next()
        self._position += 1  # "["
        if self._next() == "]":
            self._position += 1
        else:
            yield from self._values()
        if self._next():
            raise self._wrong("something follows the value", self._position)

    def _values(self) -> Iterator[tuple[int, object]]:
        while True:
            self._next()
            self._drop()
            yield self._line, self._value()
            character = self._next()
            if character not in (",", "]"):
                raise self._wrong("a comma is missing", self._position)
            self._position += 1
            if character == "]":
                return

    def _next(self) -> str:
        """The next character that is not blank, which stays; empty at the end."""
        while True:
            self._position = _BLANK.match(self._text, self._position).end()
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._read_more():
                return ""

    def _value(self) -> object:
        decoder = json.JSONDecoder()
        while True:
            try:
                value, end = decoder.raw_decode(self._text, self._position)
                if end < len(self._text) or not self._read_more():  # a number may go on
                    self._position = end
                    return value
            except json.JSONDecodeError as error:
                near = error.pos >= len(self._text) - _UNSURE or error.msg.startswith("Unterminated string")
                if not near or not self._read_more():
                    raise self._wrong(json_trouble(error), error.pos) from error
            except (ValueError, RecursionError) as error:
                raise Error(
                    f"{self._path}:{self._line}: is not JSON ({json_trouble(error)}); {self._wanted}"
                ) from error

    def _read_more(self) -> bool:
        """As much again as is there, so that a long entry is not looked at too often."""
        parts, wanted = [], max(1, len(self._text) - self._position)
        for block in self._blocks:
            parts.append(block)
            wanted -= len(block)
            if wanted <= 0:
                break
        self._text += "".join(parts)
        return any(parts)

    def _drop(self) -> None:
        """Forgets what was read."""
        self._line, self._column = self._place(self._position)
        self._text, self._position = self._text[self._position :], 0

    def _place(self, position: int) -> tuple[int, int]:
        lines = self._text.count("\n", 0, position)
        if lines:
            return self._line + lines, position - self._text.rindex("\n", 0, position) - 1
        return self._line, self._column + position

    def _wrong(self, what: str, position: int) -> Error:
        line, column = self._place(position)
        return _not_json(self._path, line, what, column + 1, self._wanted)
