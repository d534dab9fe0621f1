# SPDX-License-Identifier: Apache-2.0
"""Files and folders that are written whole or not at all, and the system's errors in this package's words."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mebp.errors import Error


@contextmanager
def system_errors(what: str, advice: str) -> Iterator[None]:
    """The block's OSError becomes an Error: `what`, the system's reason, and `advice`."""
    try:
        yield
    except OSError as error:
        raise Error(f"{what} ({error.strerror or error}); {advice}") from error


def make_parent(path: str | os.PathLike[str], what: str, advice: str) -> Path:
    """The absolute folder of `path`, made where it is not there; Error says that `what` cannot be made."""
    parent = Path(path).absolute().parent
    with system_errors(f"{what} cannot be made", advice):
        parent.mkdir(parents=True, exist_ok=True)
    return parent


def make_writable_parent(path: Path, what: str, advice: str) -> None:
    """The same for what is written only later: Error also says that `what` cannot be written."""
    if not os.access(make_parent(path, what, advice), os.W_OK):
        raise Error(f"{what} cannot be written; {advice}")


@contextmanager
def replaced_file(path: Path, advice: str) -> Iterator[Path]:
    """Yields a file beside `path`, of the same ending, that becomes `path` at the end; after an error it is gone."""
    unfinished = path.with_name(f".writing-{path.name}")
    try:
        with system_errors(f"{path}: cannot be written", advice):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield unfinished
            unfinished.replace(path)
    finally:
        with suppress(OSError):
            unfinished.unlink()


@contextmanager
def new_folder(path: Path, advice: str) -> Iterator[Path]:
    """Yields a folder beside `path` that becomes `path` at the end; after an error it is gone."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise Error(f"{path}: is there already; name a new or an empty folder")
    scratch = None
    try:
        with system_errors(f"{path}: cannot be written", advice):
            path.absolute().parent.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=f".writing-{path.name}-", dir=path.absolute().parent))
            # A temporary folder is nobody else's; what lies in it gets the usual permissions.
            (scratch / "folder").mkdir()
            yield scratch / "folder"
            (scratch / "folder").replace(path)
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def read_text(path: Path, advice: str) -> str:
    """In UTF-8; UnicodeDecodeError where it is not."""
    with system_errors(f"{path}: cannot be read", advice):
        return path.read_text(encoding="utf-8")


def read_json(path: Path, advice: str) -> dict:
    try:
        return json.loads(read_text(path, advice))
    except ValueError as error:
        raise Error(f"{path}: is not JSON ({error}); {advice}") from error
