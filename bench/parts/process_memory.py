# SPDX-License-Identifier: Apache-2.0
"""What a process holds in memory, as the system counts it, looked at from outside while it runs."""

import ctypes
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mebp.tools import last_line


@dataclass(frozen=True)
class Memory:
    """Bytes. `written`: anonymous pages and the resident pages of writable shared mappings: what the process costs.
    `clean`: every other resident page, which the system may drop and read again from its file.

    A private page of a file counts as written once it was: it is anonymous from then on.
    """

    written: int = 0
    clean: int = 0

    def highest(self, other: "Memory") -> "Memory":
        return Memory(max(self.written, other.written), max(self.clean, other.clean))


def parse_smaps(text: str) -> Memory:
    """Sums /proc/PID/smaps."""
    written = resident = 0
    writable_and_shared = False
    for line in text.splitlines():
        field, _, rest = line.partition(":")
        if " " in field:  # a mapping's first line: addresses, permissions, ...
            permissions = line.split()[1]
            writable_and_shared = "w" in permissions and "s" in permissions
            continue
        if field == "Rss":
            resident += int(rest.split()[0]) * 1024
        if field == ("Rss" if writable_and_shared else "Anonymous"):
            written += int(rest.split()[0]) * 1024
    return Memory(written, resident - written)


def memory_of(process: int) -> Memory:
    """Raises OSError where the process has ended."""
    return parse_smaps(Path(f"/proc/{process}/smaps").read_text())


def watch(command: list[str], interval: float = 0.02) -> tuple[Memory, str]:
    """Runs `command`; the highest that was seen of each figure every `interval` seconds, and what it printed.

    Raises RuntimeError with its last line of errors where it fails.
    """
    highest = Memory()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        while process.poll() is None:
            try:
                highest = highest.highest(memory_of(process.pid))
            except OSError:
                break  # it has just ended
            time.sleep(interval)
        status = process.wait()
        output.seek(0)
        errors.seek(0)
        if status != 0:
            raise RuntimeError(last_line(errors.read(), command, status))
        return highest, output.read()


def parse_status(text: str) -> int:
    """Anonymous bytes by /proc/PID/status, those of shared mappings included."""
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem") if name in fields)


def anonymous_bytes(pid: int) -> int:
    """Raises OSError where the process has ended."""
    if sys.platform == "darwin":
        return _footprint(pid)
    return parse_status(Path(f"/proc/{pid}/status").read_text())


def _footprint(pid: int) -> int:
    """What macOS counts as a process's own memory, a GPU's included. Not run by us."""
    usage = (ctypes.c_uint64 * 12)()  # rusage_info_v0: 16 bytes of an identifier, and ten counters
    if ctypes.CDLL("/usr/lib/libproc.dylib").proc_pid_rusage(pid, 0, usage) != 0:
        raise OSError(f"process {pid} has ended")
    return usage[9]  # ri_phys_footprint


class AnonymousPeak:
    """The most anonymous memory that the process `pid` is seen with while the block runs, every `interval` seconds.

    For timed steps: reading a few counters does not hold them up, as walking through all pages for smaps does.
    """

    def __init__(self, pid: int, interval: float = 0.05):
        self.bytes = 0
        self._pid = pid
        self._interval = interval
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        ended = False
        while not ended:
            ended = self._end.wait(self._interval)  # the last look is after the end
            try:
                self.bytes = max(self.bytes, anonymous_bytes(self._pid))
            except OSError:
                return  # the process has ended
