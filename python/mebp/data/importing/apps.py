# SPDX-License-Identifier: Apache-2.0
"""The apps whose exports are read: how each is recognised, and who reads it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mebp.data.importing import chatgpt, claude, telegram, whatsapp
from mebp.data.importing.chats import ASSISTANT, Chat
from mebp.data.stream import DataFile
from mebp.errors import Error, translate_errors
from mebp.words import listed


@dataclass(frozen=True)
class App:
    """One whose export is a file of JSON has `keys`; any of these sets is in what it exports."""

    name: str
    files: tuple[str, ...]  # patterns of their names, in a folder
    read: Callable[..., Iterator[Chat]]
    learned: str | None = None  # whose turns, where nobody says
    keys: tuple[frozenset[str], ...] = ()


_MODELS_FILE = "conversations*.json"  # a large account has several
_TEXT = App("WhatsApp", ("_chat*.txt", "*WhatsApp*.txt"), whatsapp.read)
_JSON = (
    App("ChatGPT", (_MODELS_FILE,), chatgpt.read, ASSISTANT, (frozenset({"mapping"}),)),
    App("Claude", (_MODELS_FILE,), claude.read, ASSISTANT, (frozenset({"chat_messages"}),)),
    App(
        "Telegram",
        ("result*.json",),
        telegram.read,
        keys=(frozenset({"messages", "type"}), frozenset({"chats"}), frozenset({"left_chats"})),
    ),
)
APPS = (*_JSON, _TEXT)
NAMES = listed(app.name for app in APPS)


def export_files(path: Path) -> list[Path]:
    """`path` itself or, of a folder, the exports in it and in the folders there; raises mebp.Error where none is."""
    if not path.is_dir():
        return [path]
    patterns = dict.fromkeys(pattern for app in APPS for pattern in app.files)
    with translate_errors(f"{path}: cannot be read", "check the path"):
        found = {file for pattern in patterns for depth in ("", "*/") for file in path.glob(depth + pattern)}
    files = sorted(file for file in found if file.is_file())
    if not files:
        raise Error(f"{path}: has no {listed(patterns)}, as {NAMES} export them; give the file itself")
    return files


def chats_of(path: Path, file: DataFile) -> Iterator[tuple[App, Chat]]:
    """The chats in an open file; raises mebp.Error where it is not an export, and for what is not as the app has it."""
    begin = file.head.lstrip()
    if whatsapp.begins(begin.partition("\n")[0]):
        yield from ((_TEXT, chat) for chat in _TEXT.read(str(path), file.lines()))
        return
    if file.arrow or not begin.startswith(("{", "[")):
        raise _no_export(path)
    for number, entry in enumerate((entry for _, entry in file.entries(telegram.shrunk)), 1):
        app = _recognise(entry)
        if app is None:
            raise _no_export(path if number == 1 else f"{path}: entry {number}")
        where = f"{path}: conversation {number}" if begin.startswith("[") else str(path)
        yield from ((app, chat) for chat in app.read(where, entry))


def _recognise(entry: object) -> App | None:
    if not isinstance(entry, dict):
        return None
    return next((app for app in _JSON if any(keys <= entry.keys() for keys in app.keys)), None)


def _no_export(what: object) -> Error:
    return Error(f"{what}: is not what {NAMES} export; give conversations.json, result.json or _chat.txt")
