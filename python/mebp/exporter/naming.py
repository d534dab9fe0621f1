# SPDX-License-Identifier: Apache-2.0
"""What models are called: a hub id with its revision, a path, packaged:NAME; and what others may read of it.

Adapters, cards and bundles are given away. A path below a home folder says who made them, so it stays out of them.
"""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mebp.errors import Error
from mebp.exporter import ollama_store, packaged
from mebp.files import user_path

_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)?", re.ASCII)
_REVISION = re.compile(r"(?!.*\.\.)\w[\w./-]*", re.ASCII)  # the hub's library makes a path of it
_SNAPSHOTS = "snapshots"  # in the hub's cache: models--OWNER--NAME/snapshots/COMMIT
_HOMES = r"/root|/(?:home|Users)/[^/\s'\":,]+"


class HubName(NamedTuple):
    """OWNER/NAME, and the branch, tag or commit behind an @."""

    id: str
    revision: str | None = None

    @classmethod
    def of(cls, name: str) -> "HubName | None":
        """None where `name` has another form."""
        id, at, revision = name.partition("@")
        if not _HUB_ID.fullmatch(id) or (at and not _REVISION.fullmatch(revision)):
            return None
        return cls(id, revision or None)

    @property
    def is_exact(self) -> bool:
        return self.revision is not None and is_commit(self.revision)

    def __str__(self) -> str:
        return f"{self.id}@{self.revision}" if self.revision else self.id


def is_commit(revision: str) -> bool:
    return _COMMIT.fullmatch(revision) is not None


def hub_name(model: str) -> HubName:
    """What `model`, which is no path, means; raises mebp.Error where it cannot be a hub id."""
    before, at, revision = model.rpartition("@")
    if at and os.path.exists(user_path(before)):
        raise Error(f"{model}: {before} is a path, and only hub ids have revisions; leave out @{revision}")
    found = HubName.of(model)
    if found is None and at and _HUB_ID.fullmatch(before):
        raise Error(f"{model}: '{revision}' is not a revision; give a branch, a tag or a commit after the @")
    if found is None and at:
        raise Error(f"{model}: no such folder, and only hub ids have revisions; give a model folder or a hub id")
    if found is None:
        raise Error(f"{model}: no such folder; give a model folder or a hub id")
    return found


def shared_path(path: Path) -> str:
    """What files that are given away call the folder or file at `path`: what it came from, where that is known. Else
    the whole path, by which PEFT opens it; below a home folder only its name, as ./NAME, which nobody takes for a hub
    id."""
    whole = path.resolve()
    if whole.parent.name == _SNAPSHOTS and is_commit(whole.name):
        id = whole.parent.parent.name.removeprefix("models--").replace("--", "/", 1)
        return str(HubName(id, whole.name))
    if name := packaged.name_of(whole):
        return name
    shown = str(whole)
    return shown if without_homes(shown) == shown else f"./{Path(os.path.abspath(path)).name}"


def shared_name(name: str) -> str:
    """The same of what a file calls a model."""
    path = Path(name)
    if name.startswith("~"):
        return f"./{path.name}"
    return shared_path(path) if path.is_absolute() else name


def without_homes(text: str) -> str:
    """With ~ for home folders: this user's, and what looks like anybody's."""
    own = []
    with suppress(RuntimeError):
        own = [re.escape(str(each)) for each in (Path.home(), Path.home().resolve()) if len(each.parts) > 1]
    return re.sub(rf"(?<![\w.~/-])(?:{'|'.join([*own, _HOMES])})(?![^/\s'\":,])", "~", text)


def title(name: str) -> str:
    """A short name for people: without a path, a scheme or a commit."""
    if hub := HubName.of(name):
        return hub.id
    if name.startswith("hub:"):
        return name.removeprefix("hub:").partition("@")[0]
    if name.startswith(("/", "./")):
        return Path(name).name
    return name.removeprefix(packaged.SCHEME).removeprefix(ollama_store.SCHEME)
