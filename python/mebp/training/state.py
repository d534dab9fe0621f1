# SPDX-License-Identifier: Apache-2.0
"""A run's saved state: what was trained, and with which data and options."""

import fcntl
import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mebp.errors import Error, translate_errors
from mebp.files import read_bytes
from mebp.session import Session

_HEAD = struct.Struct("<8s16xQ")  # the magic and the number of steps, as runtime/train/state.h has them


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps a state folder to one run; the lock ends with the process, however it ends."""
    with translate_errors(f"{folder}: cannot be written", "choose another --state"):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise Error(f"{folder}: another run uses this state; choose another --state or wait") from error
    finally:
        os.close(handle)


def exists(folder: Path) -> bool:
    """Whether a run left a state there."""
    return (folder / "state.bin").exists()


def steps(folder: Path) -> int:
    """After how many steps the state there was saved. Raises mebp.Error where the file is not a state."""
    path = folder / "state.bin"
    head = read_bytes(path, "choose another --state")[: _HEAD.size]
    magic, count = _HEAD.unpack(head.ljust(_HEAD.size, b"\0"))
    if magic != b"MEBPSTAT":
        raise Error(f"{path}: exists and is not a state of mebp train; choose another --state")
    return count


def discard(folder: Path) -> None:
    """Removes the state of an older run, before another begins there."""
    if exists(folder):
        steps(folder)  # which refuses what is not ours
        (folder / "state.bin").unlink()


def save(session: Session, folder: Path, description: dict) -> None:
    session.save_state(folder, json.dumps(description).encode())


def load(session: Session, folder: Path, description: dict) -> dict:
    """Puts the session where the state was left, and returns what was saved with it; refuses a state that was made with
    other data or options."""
    stored = session.load_state(folder)
    try:
        found = json.loads(stored)
        if not isinstance(found, dict):
            raise ValueError
    except (ValueError, RecursionError) as error:
        raise Error(f"{folder}: was not saved by mebp train; choose another --state") from error
    for option, wanted in description.items():
        if found.get(option) != wanted:
            raise Error(
                f"{folder}: was made with {option} {found.get(option)}, not {wanted}; "
                "resume with the same, or start over without --resume"
            )
    return found
