# SPDX-License-Identifier: Apache-2.0
"""A control group that holds a command to an amount of memory, the page cache that it fills counted in."""

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mebp
from mebp.tools import last_line

PAGE = os.sysconf("SC_PAGE_SIZE")
# The process enters before it becomes the command, so that every page of the command is the group's.
ENTER = 'echo $$ > "$0" && exec "$@"'


@dataclass(frozen=True)
class Files:
    """Names in a group's folder."""

    limit: str
    swap: str  # 0 in it keeps the group from swapping; absent where the kernel has no swap
    highest: str
    at_limit: str


FILES = {
    "cgroup": Files("memory.limit_in_bytes", "memory.swappiness", "memory.max_usage_in_bytes", "memory.failcnt"),
    "cgroup2": Files("memory.max", "memory.swap.max", "memory.peak", "memory.events"),
}


@dataclass(frozen=True)
class Usage:
    """What a command needed. `highest` of the group and `read` from disks in bytes; `at_limit`: how often pages had to
    go before others came; `faults`: how often the command waited for a page from a disk."""

    highest: int
    at_limit: int
    faults: int
    read: int
    output: str


@dataclass(frozen=True)
class MemoryGroup:
    folder: Path
    files: Files

    def run(self, command: list[str]) -> Usage:
        """Raises mebp.Error with the command's last line of errors where it fails, or where it does not fit."""
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            enter = ["sh", "-c", ENTER, str(self.folder / "cgroup.procs"), *command]
            process = subprocess.Popen(enter, stdout=output, stderr=errors)
            try:
                _, status, spent = os.wait4(process.pid, 0)
            except BaseException:
                process.kill()
                process.wait()
                raise
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            errors.seek(0)
            if process.returncode == -9:
                raise mebp.Error(f"{Path(command[0]).name} was killed: it needs more than {self.read('limit'):,} bytes")
            if process.returncode != 0:
                raise mebp.Error(last_line(errors.read(), command, process.returncode))
            # Blocks are of 512 bytes here, whatever the disk's are, and pages that a fault brings are among them.
            read = spent.ru_inblock * 512
            return Usage(self.read("highest"), self.read("at_limit"), spent.ru_majflt, read, output.read())

    def read(self, figure: str) -> int:
        """A field of Files."""
        text = (self.folder / getattr(self.files, figure)).read_text()
        return int(re.search(r"^(?:max )?(\d+)$", text, re.MULTILINE)[1])

    def limit(self, size: int) -> None:
        """In bytes, rounded down to whole pages. There is no swap beside it."""
        (self.folder / self.files.limit).write_text(str(size - size % PAGE))
        if (self.folder / self.files.swap).exists():
            (self.folder / self.files.swap).write_text("0")


def find_controller(mounts: str) -> tuple[Path, Files]:
    """Where the memory controller is, from the lines of /proc/mounts. Raises mebp.Error where it is not."""
    for line in mounts.splitlines():
        _, folder, kind, options = line.split()[:4]
        if kind == "cgroup" and "memory" in options.split(","):
            return Path(folder), FILES[kind]
        if kind == "cgroup2" and "memory" in (Path(folder) / "cgroup.controllers").read_text().split():
            return Path(folder), FILES[kind]
    raise mebp.Error("no mounted control group has the memory controller; mount one, or run on a machine that has it")


@contextlib.contextmanager
def memory_group(limit: int, mounts: Path = Path("/proc/mounts")) -> Iterator[MemoryGroup]:
    """A new group held to `limit` bytes, gone again in the end. Raises mebp.Error where none can be made."""
    root, files = find_controller(mounts.read_text())
    folder = root / f"mebp-{os.getpid()}"
    try:
        if files is FILES["cgroup2"] and "memory" not in (root / "cgroup.subtree_control").read_text().split():
            (root / "cgroup.subtree_control").write_text("+memory")
        folder.mkdir()
    except OSError as error:
        raise mebp.Error(f"{folder}: cannot make this control group: {error.strerror}; run as root") from None
    try:
        if not (folder / files.highest).exists():
            raise mebp.Error(f"{folder}: has no {files.highest}, which newer kernels have; run on one of them")
        group = MemoryGroup(folder, files)
        group.limit(limit)
        yield group
    finally:
        remove(folder)


def remove(folder: Path) -> None:
    """A group is busy for a moment after its last process has ended."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.02)
    folder.rmdir()
