# SPDX-License-Identifier: Apache-2.0
"""The process that renders chat templates. Anybody may have written a template, and only a process can be held to
limits whatever it does."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from mebp.errors import reason
from mebp.exporter.template_files import DEFAULT, TOOLS
from mebp.tools import last_line

_PROGRAM = Path(__file__).with_name("template_worker.py")  # it says what is sent to it, and what it answers
_SECONDS = 10.0  # of one rendering, as the next two
_MEMORY = 256_000_000
_OUTPUT = 16_000_000
_BATCH = 1_000_000  # bytes that are sent at once


@dataclass(frozen=True)
class Part:
    """What to render of a conversation."""

    turns: int  # how many, from the first one on
    add_generation_prompt: bool = False
    around: tuple[str, str] = ("", "")  # what to write around each {% generation %}


@dataclass(frozen=True)
class Asked:
    """A conversation and the parts of it to render."""

    messages: Sequence[Mapping[str, object]]
    tools: Sequence[Mapping[str, object]] | None
    parts: Sequence[Part]


@dataclass(frozen=True)
class Refused:
    """Why a template refuses a conversation."""

    reason: str


Answer = str | Refused


class BeyondLimitError(Exception):
    """What a template does too much of, as in "takes more than 10 seconds"."""


class UnreadableError(Exception):
    """Why a template cannot be read."""


class TemplateProcess:
    """Renders templates in a process, which starts when it is first needed, and again after it has ended."""

    def __init__(self, sources: Mapping[str, str], variables: Mapping[str, object], now: datetime | None) -> None:
        """sources: the default one, the one for tools, or both. variables: what a template knows besides the
        conversation. now: the time, if a template asks for it."""
        limits = {"seconds": _SECONDS, "memory": _MEMORY, "output": _OUTPUT}
        templates = {"sources": sources, "variables": variables, "now": now and now.isoformat(), "limits": limits}
        self._names, self._templates = list(sources), json.dumps(templates).encode()
        self._lock = threading.Lock()
        self._worker: _Worker | None = None

    def prepare(self) -> dict[str, bool]:
        """Reads the templates; whether each has {% generation %}. Raises UnreadableError and BeyondLimitError."""
        with self._lock:
            return dict(zip(self._names, self._ready().marks, strict=True))

    def name(self, tools: Sequence[Mapping[str, object]] | None) -> str:
        """Which template is rendered for a conversation with these tools."""
        return TOOLS if tools is not None and TOOLS in self._names else DEFAULT

    def render(self, asked: Iterable[Asked]) -> Iterator[list[Answer]]:
        """The text of each part, conversation by conversation. Raises BeyondLimitError at the one that does too much.

        Many are sent at once: if other programs keep the cores busy, each exchange waits for its turn.
        """
        for batch in self._batches(asked):
            sent = [message for _, message in batch if isinstance(message, bytes)]
            expected = sum(len(each.parts) for each, message in batch if isinstance(message, bytes))
            with self._lock:
                answers = iter(self._ready().ask(b"[%s]" % b",".join(sent), expected))
            for each, message in batch:
                if isinstance(message, Refused):
                    yield [message] * len(each.parts)
                else:
                    yield [_within_limits(answer) for answer in islice(answers, len(each.parts))]

    def _batches(self, asked: Iterable[Asked]) -> Iterator[list[tuple[Asked, bytes | Refused]]]:
        """Conversations beside what is sent of them, or why nothing can be."""
        batch, size = [], 0
        for each in asked:
            message = self._message(each)
            batch.append((each, message))
            size += len(message) if isinstance(message, bytes) else 0
            if size >= _BATCH:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _message(self, asked: Asked) -> bytes | Refused:
        name = self.name(asked.tools)
        if name not in self._names:
            return Refused(f"it has one for conversations with tools ({TOOLS}), and none for others")
        content = {
            "name": name,
            "messages": asked.messages,
            "tools": asked.tools,
            "parts": list(map(vars, asked.parts)),
        }
        try:
            return json.dumps(content).encode()
        except (TypeError, ValueError, RecursionError) as error:  # what JSON cannot have
            return Refused(reason(error))

    def _ready(self) -> "_Worker":
        if self._worker is None or not self._worker.is_usable:
            self._worker = _Worker(self._templates, len(self._names))
        return self._worker


class _Worker:
    """A process that has read templates, and the socket to it."""

    def __init__(self, templates: bytes, count: int) -> None:
        self._owner = os.getpid()
        command = [sys.executable, "-P", str(_PROGRAM)]
        self._connection, theirs = socket.socketpair()
        with theirs:
            try:
                # In a session of its own, Ctrl-C in a terminal does not reach it.
                self._process = subprocess.Popen(
                    command, stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
                )
            except OSError as error:
                self._connection.close()
                raise UnreadableError(f"{command[0]} cannot be started: {reason(error)}") from error
        self._answers = self._connection.makefile("rb", buffering=1 << 16)
        self._end = weakref.finalize(self, _end, self._process, self._connection, self._answers)
        read = [_within_limits(each) for each in self.ask(templates, count)]
        unread = next((each for each in read if isinstance(each, Refused)), None)
        if unread is not None:
            raise UnreadableError(unread.reason)
        self.marks = [each == "marks" for each in read]

    @property
    def is_usable(self) -> bool:
        """False once it has ended, and in a process that was forked: two would read each other's answers."""
        return self._end.alive and self._owner == os.getpid()

    def ask(self, message: bytes, expected: int) -> list[Answer | BeyondLimitError]:
        """Its answers to a message, the last of them a BeyondLimitError if it ended."""
        answers: list[Answer | BeyondLimitError] = []
        try:
            self._connection.sendall(struct.pack("<I", len(message)) + message)
            while len(answers) < expected:
                answers.append(self._receive_answer())
        except BeyondLimitError as error:
            answers.append(error)
        except (EOFError, ConnectionError):
            answers.append(BeyondLimitError(self._why_it_ended()))
        finally:
            # After Ctrl-C, too: what it would still answer is not what the next message asks.
            if len(answers) < expected or (answers and isinstance(answers[-1], BeyondLimitError)):
                self._end()
        return answers

    def _receive_answer(self) -> Answer:
        kind, size = struct.unpack("<cI", self._receive(5))
        text = self._receive(size).decode("utf-8", "surrogatepass")
        if kind == b">":
            raise BeyondLimitError(text)
        return Refused(text) if kind == b"!" else text

    def _receive(self, size: int) -> bytes:
        received = self._answers.read(size)
        if len(received) < size:
            raise EOFError
        return received

    def _why_it_ended(self) -> str:
        status = self._process.wait()
        if status == -signal.SIGALRM:
            return f"takes more than {_SECONDS:g} seconds"
        if status < 0:
            return f"ends the process that renders it, by {signal.Signals(-status).name}"
        errors = self._process.stderr.read().decode(errors="replace")
        return f"cannot be rendered: {last_line(errors, self._process.args, status)}"


def _within_limits(answer: Answer | BeyondLimitError) -> Answer:
    if isinstance(answer, BeyondLimitError):
        raise answer
    return answer


def _end(process: subprocess.Popen, connection: socket.socket, answers: BinaryIO) -> None:
    process.kill()
    process.wait()
    for each in (process.stderr, answers, connection):
        each.close()
