# SPDX-License-Identifier: Apache-2.0
"""The program that renders chat templates, in a process of its own that has limits.

template_process.py starts it as `python -P template_worker.py`, with a socket as standard input. It imports nothing of
mebp, which would cost time and memory at every start.

It reads messages of JSON, each after its length in four bytes: the templates by name, then lists of conversations, each
with its template's name and the parts of it to render. It answers each template and each part: a kind, the length of a
text in four bytes, and the text.

=  the rendered text; of a template, "marks" where it has {% generation %}
!  why the template refuses the conversation
>  the limit that the template went beyond, after which the process ends

What takes too long is ended by SIGALRM, whatever it is doing.
"""

import encodings.unicode_escape
import html
import json
import os
import resource
import signal
import struct
import textwrap
import unicodedata
from collections.abc import Callable
from datetime import datetime
from typing import BinaryIO

import jinja2.constants
import jinja2.debug
from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

# Loaded now: templates need them when this process may not open files any more.
_LATER = (encodings.unicode_escape, html, jinja2.constants, jinja2.debug, textwrap, unicodedata)
_LONGEST_REASON = 500  # characters


class _BeyondLimitError(Exception):
    """What a template does too much of."""


class _Generation(Extension):
    """{% generation %} ... {% endgeneration %}, in which a template writes what the assistant said."""

    tags = frozenset({"generation"})

    def parse(self, parser: Parser) -> nodes.Node:
        self.environment.marks = True
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_write"), [], [], body).set_lineno(line)

    def _write(self, caller: Macro) -> str:
        start, end = self.environment.around
        return start + caller() + end


class _Environment(ImmutableSandboxedEnvironment):
    """What transformers gives a template."""

    def __init__(self, now: datetime | None) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self.marks = False  # whether the template that was read last has {% generation %}
        self.around = ("", "")  # what to write around it
        self.filters["tojson"] = _to_json
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = lambda form: (now or datetime.now()).strftime(form)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own escapes for HTML.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


class _Worker:
    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests, self._answers = requests, answers
        self._first = self._read()
        self._limits = self._first["limits"]

    def run(self) -> None:
        """Returns when the template goes beyond a limit; ends the process when the other side is gone."""
        try:
            self._serve()
        except MemoryError:
            beyond = f"takes more than {self._limits['memory'] / 1e6:g} MB of memory"
        except _BeyondLimitError as error:
            beyond = str(error)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._write(b">", beyond.encode())
        self._answers.flush()

    def _serve(self) -> None:
        _confine(self._limits["memory"])
        now = self._first["now"]
        self._environment = _Environment(now and datetime.fromisoformat(now))
        self._templates = {}
        for name in self._first["sources"]:
            self._answer(self._prepare, name)
        while True:
            self._answers.flush()
            for asked in self._read():
                for part in asked["parts"]:
                    self._answer(self._render, asked, **part)

    def _prepare(self, name: str) -> str:
        self._environment.marks = False
        self._templates[name] = self._environment.from_string(self._first["sources"][name])
        return "marks" if self._environment.marks else ""

    def _render(self, asked: dict, turns: int, add_generation_prompt: bool, around: tuple[str, str]) -> str:
        self._environment.around = around
        pieces, length = [], 0
        for piece in self._templates[asked["name"]].generate(
            messages=asked["messages"][:turns],
            tools=asked["tools"],
            documents=None,
            add_generation_prompt=add_generation_prompt,
            **self._first["variables"],
        ):
            pieces.append(piece)
            length += len(piece)
            self._check_length(length)
        return "".join(pieces)

    def _answer(self, make: Callable[..., str], *arguments: object, **named: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._limits["seconds"])
        try:
            kind, text = b"=", make(*arguments, **named).encode("utf-8", "surrogatepass")
            self._check_length(len(text))
        except (MemoryError, _BeyondLimitError):
            raise
        except Exception as error:  # whatever Python raises for what a template does
            kind, text = b"!", _reason(error).encode("utf-8", "surrogatepass")
        signal.setitimer(signal.ITIMER_REAL, 0)  # the other side may be slow to read
        self._write(kind, text)

    def _check_length(self, length: int) -> None:
        if length > self._limits["output"]:
            raise _BeyondLimitError(f"writes more than {self._limits['output'] / 1e6:g} MB")

    def _read(self) -> dict | list:
        header = self._requests.read(4)
        if len(header) < 4:
            os._exit(0)
        return json.loads(self._requests.read(struct.unpack("<I", header)[0]))

    def _write(self, kind: bytes, text: bytes) -> None:
        self._answers.write(struct.pack("<cI", kind, len(text)) + text)


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip(" .")[:_LONGEST_REASON] if lines else type(error).__name__


def _confine(memory: int) -> None:
    """From here on this process takes at most `memory` more bytes, opens and writes no file, and starts no other."""
    # The process that started this one may have it ignored or blocked.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    datetime.now().astimezone()  # reads the time zone
    # Nobody reads what Python might say from here on, and it must not wait for somebody who does.
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)
    limits = {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NPROC: 0, resource.RLIMIT_CORE: 0}
    if os.path.exists("/proc/self/statm"):  # macOS does not hold a process to a limit of memory
        with open("/proc/self/statm") as file:
            limits[resource.RLIMIT_AS] = int(file.read().split()[0]) * resource.getpagesize() + memory
    limits[resource.RLIMIT_NOFILE] = 0
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    # One socket for both ways.
    with open(0, "rb", closefd=False) as requests, open(0, "wb", 1 << 16, closefd=False) as answers:
        _Worker(requests, answers).run()
