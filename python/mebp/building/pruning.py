# SPDX-License-Identifier: Apache-2.0
"""What the cache holds, and the removal of what was not used for the longest time.

An entry is what can be made again by itself: a bundle, an export, the tokens of a file, a caller's list of samples, a
model that was unpacked. Weights may have links in several entries and outside of the cache; they count where removing
entries frees them.
"""

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mebp.cache import check_writers
from mebp.errors import Error, reason
from mebp.exporter import packaged
from mebp.session_options import byte_size
from mebp.tools import cache_folder
from mebp.words import counted

LIMIT = "MEBP_CACHE_LIMIT"
_USUAL = 20 * 10**9
_KINDS = ("bundles", "exports", "tokens", "rows", "references", "lists")
_REMOVING = ".removing-"
_DAY = 86400

Files = dict[tuple[int, int], tuple[int, int, int]]


@dataclass(frozen=True)
class Entry:
    path: Path
    bytes: int  # what removing it alone frees
    used: float  # when, in seconds since 1970
    held: bool  # by a process that uses it

    @property
    def name(self) -> str:
        return str(self.path.relative_to(cache_folder()))

    @property
    def last_used(self) -> str:
        days = int((time.time() - self.used) / _DAY)
        return f"{counted(days, 'day')} ago" if days > 0 else "today"


def cache_limit() -> int:
    """The most bytes that a build leaves in the cache; 0 for no limit."""
    stated = os.environ.get(LIMIT)
    return _USUAL if stated is None else size_of(LIMIT, stated)


def size_of(name: str, text: str) -> int:
    return 0 if text.strip() == "0" else byte_size(name, text)


def list_entries() -> tuple[list[Entry], int]:
    """What the cache holds, the least recently used first, and the bytes of all."""
    contents = {path: _files(path) for path in _paths()}
    found = [Entry(path, _freed([files]), path.stat().st_mtime, _is_held(path)) for path, files in contents.items()]
    return sorted(found, key=lambda entry: entry.used), _freed(contents.values())


def prune(limit: int) -> list[Entry]:
    """Removes what was not used for the longest time and nobody holds, until all have at most `limit` bytes; returns
    what was removed. Raises mebp.Error where the cache is not one's own, or something cannot be removed."""
    removed: list[Entry] = []
    for entry in list_entries()[0]:
        left = [_files(path) for path in _paths()]
        if _freed(left) <= limit:
            break
        with _alone(entry.path) as is_free:
            if is_free:
                _remove(entry.path)
                removed.append(entry)
    return removed


def keep_within(limit: int) -> Iterator[str]:
    """As `prune`, after a build, which it does not fail; yields a line for each entry that went."""
    try:
        for entry in prune(limit):
            why = f"{LIMIT} is {limit / 1e9:g} GB"
            yield f"{entry.path}: removed from the cache, last used {entry.last_used}, for {why}"
    except Error as error:
        yield f"note: {error}"


def _paths() -> Iterator[Path]:
    root = cache_folder()
    for folder in (root, *(root / kind for kind in _KINDS)):
        check_writers(folder)
    for kind in _KINDS:
        yield from (path for path in sorted((root / kind).glob("*")) if not path.name.startswith("."))
    yield from (root / name for name in packaged.NAMES if (root / name).is_dir())


def _files(path: Path) -> Files:
    """Of each file below it, by its inode: bytes, links, and how many of these are here."""
    found: Files = {}
    for each in (path, *path.rglob("*")):
        with suppress(FileNotFoundError):  # another process removes it
            status = each.lstat()
            key = status.st_dev, status.st_ino
            if not stat.S_ISDIR(status.st_mode):
                found[key] = status.st_size, status.st_nlink, found.get(key, (0, 0, 0))[2] + 1
    return found


def _freed(contents: Iterable[Files]) -> int:
    """The bytes of files all of whose links are among these."""
    here: Files = {}
    for files in contents:
        for key, (size, links, count) in files.items():
            here[key] = size, links, here.get(key, (0, 0, 0))[2] + count
    return sum(size for size, links, count in here.values() if count >= links)


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Whether nobody holds the entry; then nobody does within, for `hold` of mebp.cache waits."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_free = True
    except OSError:
        is_free = False
    try:
        yield is_free
    finally:
        os.close(handle)


def _is_held(path: Path) -> bool:
    with _alone(path) as is_free:
        return not is_free


def _remove(path: Path) -> None:
    """As a whole: it has another name before its files go."""
    aside = path.with_name(f"{_REMOVING}{path.name}")
    try:
        if aside.exists():  # of a killed process
            shutil.rmtree(aside)
        path.rename(aside)
        shutil.rmtree(aside) if aside.is_dir() else aside.unlink()
    except OSError as error:
        raise Error(f"{path}: cannot be removed ({reason(error)}); check whose it is") from error
