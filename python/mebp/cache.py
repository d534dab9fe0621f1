# SPDX-License-Identifier: Apache-2.0
"""Folders that can be made again, each by a name that says what it was made of: whole or not there."""

import atexit
import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from mebp.errors import Error, reason, translate_errors
from mebp.files import made_folders, make_parent, new_folder, scratch_folder
from mebp.tools import cache_folder

_ADVICE = "make room there, or name another folder with MEBP_CACHE"
_OWN = 0o700  # what is trained, and on what, can be told from it


def make_cache_folder() -> None:
    """Where it is missing. Raises mebp.Error where it cannot be made, or anybody may put something there."""
    folder = cache_folder()
    with translate_errors(f"{folder}: cannot be made", _ADVICE), made_folders(folder, _OWN):
        check_writers(folder)


def check_writers(folder: Path) -> None:
    """Raises mebp.Error where everybody may write to this folder of the cache, for nothing tells whose a model is."""
    if folder.is_dir() and folder.stat().st_mode & stat.S_IWOTH:
        raise Error(
            f"{folder}: everybody may write to this folder of the cache, so what lies there may be anybody's; run "
            "chmod o-w on it, or name another folder with MEBP_CACHE"
        )


_held: dict[Path, int] = {}  # locks of entries that this process uses; they end with it


def hold(path: Path) -> bool:
    """Keeps what was kept at `path` from being pruned while this process lives; False where nothing is there."""
    before = _held.get(path)
    if before is not None and _is_at(before, path):
        return True
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    with suppress(OSError):  # a file system without locks; a cache of somebody else's
        fcntl.flock(handle, fcntl.LOCK_SH)  # waits for who prunes it
        os.utime(handle)  # it was used now
    if not _is_at(handle, path):
        os.close(handle)
        return False
    _held[path] = handle
    return True


def hold_entry_of(path: Path) -> Path:
    """`path` itself, with the entry of the cache held that it lies in, if it lies in one."""
    place, root = Path(os.path.realpath(path)), Path(os.path.realpath(cache_folder()))
    if place.is_relative_to(root) and len(parts := place.relative_to(root).parts) > 1:
        hold(cache_folder() / parts[0] / parts[1])
    return path


class Cache:
    """In $MEBP_CACHE or ~/.cache/mebp; where that cannot be written, in a temporary folder of this process."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._folder = cache_folder()

    def find(self, name: str) -> Path | None:
        """What was kept as `name`, such as "bundles/NAME"; None where nothing was. This process holds it."""
        path = self._folder / name
        for folder in (self._folder, path.parent):
            check_writers(folder)
        return path if hold(path) else None

    def has_like(self, folder: str, pattern: str) -> bool:
        """Whether something is kept in `folder` whose name matches the pattern."""
        return any(path.is_dir() for path in (self._folder / folder).glob(pattern))

    def like(self, folder: str, pattern: str) -> list[str]:
        """Names of what is kept in `folder` and matches the pattern."""
        check_writers(self._folder / folder)
        return [path.name for path in (self._folder / folder).glob(pattern) if path.is_dir()]

    def keep(self, name: str, make: Callable[[Path], None]) -> tuple[Path, bool]:
        """What was kept as `name`, and whether it was there; where not, `make` fills the empty folder that it is given.

        Another process that makes the same is waited for. What raises an error, or is stopped, leaves nothing behind.
        """
        if found := self.find(name):
            return found, True
        self._check_writable()
        path = self._folder / name
        make_parent(path, _ADVICE)  # and it stays: another process may be about to use it
        with self.alone(path):
            if hold(path):
                return path, True
            with new_folder(path, _ADVICE) as folder:
                make(folder)
            hold(path)
        return path, False

    def _check_writable(self) -> None:
        try:
            with made_folders(self._folder, _OWN), tempfile.TemporaryFile(dir=self._folder):
                return
        except (OSError, Error) as error:
            why = reason(error.__cause__ if isinstance(error, Error) and error.__cause__ else error)
        stack = ExitStack()
        atexit.register(stack.close)
        beside = stack.enter_context(scratch_folder(Path(tempfile.gettempdir()), "mebp-cache-"))
        self._say(
            f"{self._folder}: cannot be written ({why}), so what is made lies in {beside} and is gone when this "
            "process ends; MEBP_CACHE names another folder"
        )
        self._folder = beside

    @contextmanager
    def alone(self, path: Path) -> Iterator[None]:
        """Keeps `path`, whose folder is there, to one process at a time."""
        lock = path.with_name(f".{path.name}.lock")
        handle = self._locked(lock)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            os.close(handle)

    def _locked(self, lock: Path) -> int:
        """A lock of the file, which whoever held it before has removed."""
        told = False
        while True:
            with translate_errors(f"{lock}: cannot be locked", "remove it, or name another folder with MEBP_CACHE"):
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
                handle = os.open(lock, flags, 0o600)
            try:
                if not _try_lock(handle):
                    if not told:
                        self._say("another process makes the same; waiting for it")
                        told = True
                    fcntl.flock(handle, fcntl.LOCK_EX)
                if _is_at(handle, lock, follow=False):
                    return handle
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(handle: int, path: Path, follow: bool = True) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat(follow_symlinks=follow))
    except FileNotFoundError:
        return False
