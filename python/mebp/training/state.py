# SPDX-License-Identifier: Apache-2.0
"""A run's saved state: what was trained, and with which data and options."""

import json
import os
import reprlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from mebp.errors import Error, translate_errors
from mebp.exporter.checkpoint import read_header
from mebp.extension import load_runtime
from mebp.files import open_regular
from mebp.session import Session

_FILES = ("state.bin", "state.previous.bin")
ASKED, EXACT = "asked", "exact"  # what a run's model was called, and what names the same one whenever it is asked for
_LARGEST_DESCRIPTION = 1 << 30  # bytes; what is kept of a rollout may have megabytes
_STRANGERS = "was not saved by mebp train"
_ADVICE = "choose another --state"


@contextmanager
def locked(path: Path, is_folder: bool = True) -> Iterator[None]:
    """Keeps a folder, made where it is missing, or a file to one run; the lock ends with the process at the latest."""
    lock = load_runtime().Lock(os.fspath(path), is_folder)
    try:
        yield
    finally:
        lock.release()


def exists(folder: Path) -> bool:
    """Whether a run left a state there."""
    return any((folder / name).exists() for name in _FILES)


def steps(folder: Path) -> int:
    """After how many steps the state there was saved. Raises mebp.Error where the file is not a state."""
    return load_runtime().state_steps(os.fspath(folder)) or 0


def saved_with(folder: Path) -> dict:
    """What `description` and the like were when the state was saved; empty where that cannot be read."""
    for name in _FILES:
        with suppress(Error, KeyError, ValueError, RecursionError, OSError):
            stored = read_header(folder / name)["mebp.user"]
            if stored.length > _LARGEST_DESCRIPTION:
                continue
            with open_regular(stored.file, _ADVICE) as file:
                file.seek(stored.offset)
                return dict(json.loads(file.read(stored.length)))
    return {}


def discard(folder: Path) -> None:
    """Removes the states of an older run, before another begins there."""
    if exists(folder):
        steps(folder)  # which refuses what is not ours
        for name in _FILES:
            (folder / name).unlink(missing_ok=True)


def save(session: Session, folder: Path, description: dict, parts: Sequence[Path] = ()) -> None:
    """`parts`: the states of other processes' sessions, which have what this one lacks."""
    user = json.dumps(description).encode()
    if parts:
        session.native.join_states(os.fspath(folder), [os.fspath(part) for part in parts], user)
    else:
        session.save_state(folder, user)


def pause(session: Session, folder: Path, description: dict) -> None:
    """Saves it, and gives the session's memory back."""
    session.pause(folder, json.dumps(description).encode())


def _shown(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and len(text) <= 100 else reprlib.repr(value)


def restoring(folder: Path) -> AbstractContextManager[None]:
    """What a block cannot make sense of in what was saved becomes an mebp.Error."""
    return translate_errors(f"{folder}: {_STRANGERS}", _ADVICE, (ValueError, TypeError, OverflowError))


def records(stored: dict, name: str) -> dict:
    """What was saved by that name; empty where nothing was. Raises ValueError where it has no names itself."""
    found = stored.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"{name} has no names")
    return found


def load(session: Session, folder: Path, description: dict) -> dict:
    """Puts the session where the state was left, and returns what was saved with it; refuses a state that was made with
    other data or options."""
    stored = session.load_state(folder)
    try:
        found = json.loads(stored)
        if not isinstance(found, dict):
            raise ValueError
    except (ValueError, RecursionError) as error:
        raise Error(f"{folder}: {_STRANGERS}; {_ADVICE}") from error
    for option, wanted in description.items():
        if found.get(option) != wanted:
            raise Error(
                f"{folder}: was made with {option} {_shown(found.get(option))}, not {wanted}; "
                "resume with the same, or start over without --resume"
            )
    return found
