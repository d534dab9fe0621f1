# SPDX-License-Identifier: Apache-2.0
"""Files and folders that are read, made, and written whole or not at all; what fails is one line about the file."""

import ctypes
import errno
import fcntl
import glob
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from mebp.errors import Error, json_trouble, translate_errors


def user_path(path: str | os.PathLike[str]) -> Path:
    """`path` with ~ as the home folder, which a shell replaces only at the beginning of a word, not in --data=~/x."""
    if "\0" in str(path):
        raise Error(f"{path!r}: has a character NUL; leave it out")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise Error(f"{path}: no such home folder; give the whole path") from error


# A model's settings are small; a huge file would only take all memory.
_LARGEST_JSON = 64 << 20


@contextmanager
def open_regular(path: Path, advice: str) -> Iterator[BinaryIO]:
    """Yields the file `path` for reading; a pipe or a device, which may wait or go on for ever, is refused."""
    with translate_errors(f"{path}: cannot be read", advice):
        # Without O_NONBLOCK, opening a pipe already waits.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            mode = os.fstat(handle).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not stat.S_ISREG(mode):
                raise Error(f"{path}: is not a regular file; {advice}")
            yield file


_SHARED_BLOB = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}")  # of huggingface_hub's store for a whole cache


def is_own(file: Path) -> bool:
    """Whether `file` ends, after all links, at a regular file inside its folder, or inside the blobs of the hub cache
    whose snapshot that folder is. The folder may itself be a link."""
    target, folder = Path(os.path.realpath(file)), Path(os.path.realpath(file.parent))
    if not target.is_file():
        return False
    if target.is_relative_to(folder):
        return True
    for snapshot in (folder, *folder.parents):
        repository = snapshot.parent.parent
        if snapshot.parent.name == "snapshots" and repository.name.startswith("models--"):
            shared = repository.parent / "blobs"
            return target.is_relative_to(repository / "blobs") or (
                target.is_relative_to(shared) and bool(_SHARED_BLOB.fullmatch(target.relative_to(shared).as_posix()))
            )
    return False


def own_file(file: Path) -> Path:
    """`file` itself, which somebody's folder has. A link that leads elsewhere is refused: it could bring a file of the
    reader's into what is made of the folder."""
    if file.is_symlink() and not is_own(file):
        raise Error(
            f"{file}: is a link to {os.path.realpath(file)}, which is not a file in {file.parent}; put a copy of that "
            "file there instead of the link, if you want it to be used"
        )
    return file


def own_files(folder: Path) -> Path:
    """`folder` itself, somebody's adapter, none of whose files is a link that leads elsewhere."""
    for file in (*folder.glob("*.json"), *folder.glob("*.safetensors")):
        own_file(file)
    return folder


def plain_file(file: Path) -> Path:
    """`file` itself, which a bundle has; any link is refused."""
    if file.is_symlink():
        raise Error(f"{file}: is a link to {os.path.realpath(file)}, and a bundle has no links; compile it again")
    return file


def read_bytes(path: Path, advice: str, largest: int | None = None) -> bytes:
    """All of the regular file `path`, of at most `largest` bytes."""
    with open_regular(path, advice) as file:
        size = os.fstat(file.fileno()).st_size
        if largest is not None and size > largest:
            raise Error(f"{path}: has {size} bytes, more than such a file can have; {advice}")
        return file.read()


def read_text(path: Path, advice: str) -> str:
    """In UTF-8, without the mark that some editors put first.

    Raises mebp.Error, too, where the file changes meanwhile: what was read may be half of one version.
    """
    with translate_errors(f"{path}: cannot be read", advice), path.open("rb") as file:
        before = os.fstat(file.fileno())
        content = file.read()
        after = os.fstat(file.fileno())
    if stat.S_ISREG(before.st_mode) and file_version(before) != file_version(after):
        raise Error(f"{path}: changed while it was read; try again when nothing writes to it")
    return _decode(path, content)


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Error(f"{path}:{line}: is not UTF-8 at byte {error.start} of the file; convert it") from error


def file_version(status: os.stat_result) -> tuple[int, int]:
    """What differs as soon as a file has another content."""
    return status.st_size, status.st_mtime_ns


def read_json(path: Path, advice: str) -> dict:
    """The JSON object in the regular file `path`."""
    return parse_object(str(path), _decode(path, read_bytes(path, advice, _LARGEST_JSON)), advice)


def parse_object(what: str, text: str | bytes, advice: str) -> dict:
    """The JSON object that `text` is, which is called `what` in an error."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = f", line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise Error(f"{what}: is not JSON ({json_trouble(error)}{place}); {advice}") from error
    if not isinstance(value, dict):
        raise Error(f"{what}: is not a JSON object; {advice}")
    return value


def sync(path: Path) -> None:
    """What was written to a file, or the names in a folder, are on the disk. Raises OSError where they cannot be."""
    handle = os.open(path, os.O_RDONLY)
    try:
        if hasattr(fcntl, "F_FULLFSYNC"):
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
        else:
            os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot sync a folder
            raise
    finally:
        os.close(handle)


def _make_folder(folder: Path, permissions: int = 0o777) -> None:
    """With those above it, which have the usual permissions, each new name synced."""
    if folder.is_dir():
        return
    if not folder.parent.exists():
        _make_folder(folder.parent)
    folder.mkdir(permissions, exist_ok=True)
    sync(folder.parent)


def make_parent(path: str | os.PathLike[str], advice: str, what: str | None = None) -> Path:
    """The absolute folder of `path`, made where it is not there; `what` is how an error begins, if not with it."""
    parent = user_path(path).absolute().parent
    with translate_errors(f"{what or f'{parent}:'} cannot be made", advice):
        _make_folder(parent)
    return parent


def make_writable_parent(path: Path, advice: str, what: str) -> None:
    """The same for what is written only later: Error also says that `what` cannot be written."""
    if not os.access(make_parent(path, advice, what), os.W_OK):
        raise Error(f"{what} cannot be written; {advice}")


def check_space(folder: Path, needed: int, what: str) -> None:
    """Raises Error where the disk of `folder` has fewer than `needed` bytes left for `what`."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        raise Error(
            f"{folder}: {what} needs {needed / 1e6:.1f} MB here and {free / 1e6:.1f} MB are free; make room or choose "
            "another folder"
        )


@contextmanager
def made_folders(folder: Path, permissions: int = 0o777) -> Iterator[None]:
    """Makes `folder` and those above it; after an error in the block the new ones are gone, if nothing is in them."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        _make_folder(folder, permissions)
        yield
    except BaseException:
        for each in missing:
            with suppress(OSError):
                each.rmdir()
        raise


@contextmanager
def replaced_file(path: Path, advice: str, permissions: int = 0o666) -> Iterator[Path]:
    """Yields a file beside `path`, of the same ending, that becomes `path` at the end; after an error it is gone.

    permissions: less what the umask takes away, from the beginning on. Whoever could open a file once reads what is
    written to it later, so that taking them away afterwards is too late.
    """
    unfinished = path.with_name(f".writing-{path.name}")
    with translate_errors(f"{path}: cannot be written", advice), made_folders(path.parent):
        unfinished.unlink(missing_ok=True)  # of a killed run; a link that was planted is not followed
        unfinished.touch(permissions, exist_ok=False)
        try:
            yield unfinished
            sync(unfinished)
            unfinished.replace(path)
            sync(path.parent)
        finally:
            unfinished.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path, advice: str, replace: bool = False) -> Iterator[Path]:
    """Yields a folder beside `path` that becomes `path` at the end; after an error it is gone.

    With `replace`, a folder that is there makes way for it, at the end and as a whole: there is one of the two at
    `path` at any moment or, where the file system cannot exchange names, beside it until the next call.
    """
    parent = path.absolute().parent
    aside = parent / f".older-{path.name}"
    with translate_errors(f"{path}: cannot be written", advice):
        _restore(aside, path)
        older = path.exists() and (not path.is_dir() or any(path.iterdir()))
        if older and not (replace and path.is_dir()):
            raise Error(f"{path}: exists already; give a new or an empty folder")
        with made_folders(parent), scratch_folder(parent, f".writing-{path.name}-") as scratch:
            # A scratch folder is nobody else's; what lies in it gets the usual permissions.
            folder = scratch / "folder"
            folder.mkdir()
            yield folder
            sync_tree(folder)
            if not older:
                folder.replace(path)
            elif not _exchanged(folder, path):
                path.rename(aside)
                try:
                    folder.replace(path)
                finally:
                    _restore(aside, path)
            sync(parent)


def _restore(aside: Path, path: Path) -> None:
    """What a replacement has moved aside goes back if nothing has taken its place, and else away."""
    if not _is_own(aside):
        return
    if not path.exists():
        aside.rename(path)
    else:
        shutil.rmtree(aside)


def _is_own(path: Path) -> bool:
    """Whether there is such a folder, or file, of this user: in /tmp anybody may have left one of that name."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode)


def _exchanged(first: Path, second: Path) -> bool:
    """Swaps two names at once, and returns whether the system can."""
    exchange, here = 2, -100  # RENAME_EXCHANGE, AT_FDCWD
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2  # of Linux; the standard library has nothing like it
    except AttributeError:
        return False
    if call(here, os.fsencode(first), here, os.fsencode(second), exchange) == 0:
        return True
    if ctypes.get_errno() in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), os.fspath(second))


def sync_tree(folder: Path) -> None:
    """All files below it, and all their names."""
    for each in (folder, *folder.rglob("*")):
        if each.is_dir() or each.is_file():
            sync(each)


@contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Yields a new folder in `parent` that is gone at the end, with what is in it, and so is what killed ones left."""
    for leftover in filter(_is_own, parent.glob(f"{glob.escape(prefix)}*")):
        with suppress(OSError), _locked(leftover):
            shutil.rmtree(leftover, ignore_errors=True)
    # TemporaryDirectory changes permissions to remove a file, and hard-linked weights share them with the model.
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    with _locked(folder):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Raises OSError where it is a link, or another process has it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
