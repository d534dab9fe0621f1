# SPDX-License-Identifier: Apache-2.0
"""A command that reads and answers, within limits, and ends together with all that it started."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from mebp.errors import Error

MOST_WRITTEN = 16 * 10**6  # bytes of an answer
_KEPT = 1 << 16  # bytes of what a command writes on standard error: the last line says why it failed
_CHUNK = 1 << 16
_PATIENCE = 0.1  # seconds between two looks at the clock and at whether the run is to end
# Its input ends when this process does, however that ends, even by SIGKILL. Then it ends its whole group.
_GUARD = ("/bin/sh", "-c", "read line; kill -s KILL 0")


class StoppedError(Exception):
    """The run is to end, so a command, or what a model writes, was ended before it was through."""


@dataclass(frozen=True)
class Ended:
    """What a command did."""

    status: int
    written: bytes
    complaint: bytes  # the end of what it wrote on standard error


def converse(words: Sequence[str], given: bytes, seconds: float, stop: Callable[[], bool]) -> Ended:
    """Runs a command without a shell, with `given` as its input. Nothing of its process group is left afterwards.

    seconds: how long it may take; 0 for no limit. stop: asked again and again; StoppedError is raised when it is true.
    Raises mebp.Error, in the words that follow a command's name, where a limit is passed, and OSError where the command
    cannot be run.
    """
    with _grouped(words) as process, _Talk(process, given) as talk:
        end = time.monotonic() + seconds if seconds else None
        while not talk.is_over:
            talk.go_on(_PATIENCE)
            if len(talk.written) > MOST_WRITTEN:
                raise Error(f"writes more than {MOST_WRITTEN // 10**6} MB; write one line for each completion")
            if stop():
                raise StoppedError
            if end is not None and time.monotonic() > end:
                raise Error(
                    f"has not answered after {seconds:g} s; give it more with --reward-timeout, or 0 for no limit"
                )
    return Ended(process.returncode, bytes(talk.written), bytes(talk.complaint))


@contextmanager
def _grouped(words: Sequence[str]) -> Iterator[subprocess.Popen]:
    """The command, in a process group of its own that ends with the block."""
    ends = subprocess.DEVNULL
    with subprocess.Popen(_GUARD, stdin=subprocess.PIPE, stdout=ends, stderr=ends, process_group=0) as guard:
        try:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            with subprocess.Popen(words, **pipes, bufsize=0, process_group=guard.pid) as process:
                try:
                    yield process
                finally:
                    _end(guard.pid)
        finally:
            _end(guard.pid)


def _end(group: int) -> None:
    # Its number stays taken until the guard is waited for. Where only zombies are left, macOS refuses.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


class _Talk:
    """What goes to a command and what comes from it, as it comes."""

    def __init__(self, process: subprocess.Popen, given: bytes) -> None:
        self._process, self._rest = process, memoryview(given)
        self.written, self.complaint = bytearray(), bytearray()
        self.is_over = False
        self._selector = selectors.DefaultSelector()
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
        self._selector.register(process.stdin, selectors.EVENT_WRITE, self._write)
        self._selector.register(process.stdout, selectors.EVENT_READ, self._read)
        self._selector.register(process.stderr, selectors.EVENT_READ, self._listen)

    def __enter__(self) -> "_Talk":
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def go_on(self, seconds: float) -> None:
        """Waits so long for anything to happen, and does it."""
        has_ended = self._process.poll() is not None
        if not self._selector.get_map():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
                self.is_over = True
            return
        # What it started may hold the pipes open for ever, so after its end nothing is waited for.
        ready = self._selector.select(0 if has_ended else seconds)
        for key, _ in ready:
            key.data(key.fileobj)
        self.is_over = has_ended and not any(key.data != self._write for key, _ in ready)

    def _write(self, pipe: object) -> None:
        try:
            self._rest = self._rest[os.write(pipe.fileno(), self._rest[:_CHUNK]) :] if self._rest else self._rest
        except BlockingIOError:
            return
        except BrokenPipeError:  # it need not read all
            self._rest = self._rest[:0]
        if not self._rest:
            self._close(pipe)

    def _read(self, pipe: object) -> None:
        self.written += self._chunk(pipe)

    def _listen(self, pipe: object) -> None:
        self.complaint += self._chunk(pipe)
        del self.complaint[:-_KEPT]

    def _chunk(self, pipe: object) -> bytes:
        try:
            chunk = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return b""
        if not chunk:
            self._close(pipe)
        return chunk

    def _close(self, pipe: object) -> None:
        self._selector.unregister(pipe)
        pipe.close()
