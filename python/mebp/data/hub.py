# SPDX-License-Identifier: Apache-2.0
"""Data sets of the hub: hub:OWNER/NAME, with a folder or file in it, and a revision behind an @."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mebp.data.splits import ENDINGS
from mebp.errors import Error
from mebp.extras import need_packages
from mebp.words import listed

SCHEME = "hub:"
# Words in a file's path that say what it is for, by the options of `mebp train`; a file's own name says more.
_WORDS = {
    "data": {"train", "training"},
    "eval": {"valid", "validation", "val", "dev"},
    "test": {"test", "testing", "eval", "evaluation"},
}


@dataclass(frozen=True)
class HubData:
    asked: str  # as it was written
    exact: str  # with its commit
    folder: Path
    files: Mapping[str, Sequence[Path]]  # by the options of `mebp train` that take them

    @property
    def note(self) -> str | None:
        """Which commit a branch or a tag was."""
        return None if self.asked == self.exact else f"{self.asked}: commit {self.exact.rpartition('@')[2]}"


def is_hub(name: str | os.PathLike[str]) -> bool:
    return os.fspath(name).startswith(SCHEME)


def fetch(asked: str) -> HubData:
    """Its files, at the commit that its revision is now; none of them again that is here already.

    Raises mebp.Error where there is none, or its files are not all of one kind.
    """
    from mebp.exporter.finding import DATASET, download
    from mebp.exporter.naming import HubName

    name, at, revision = asked.removeprefix(SCHEME).partition("@")
    owner, slash, rest = name.partition("/")
    short, _, inside = rest.partition("/")
    hub = HubName.of(f"{owner}/{short}{at}{revision}")
    if hub is None or not slash or ".." in inside.split("/") or (at and not revision):
        raise Error(f"{asked}: is no data set of the hub; give hub:OWNER/NAME, or hub:OWNER/NAME@REVISION")
    need_packages(asked, "hub", "huggingface_hub")
    wanted = [f"*{ending}" for ending in ENDINGS] if not inside else [inside, f"{inside}/*"]
    found = download(hub, wanted, DATASET)
    exact = f"{SCHEME}{name}@{found.place.name}"
    return HubData(asked, exact, found.place / inside, _by_use(asked, found.place / inside))


def _by_use(asked: str, place: Path) -> dict[str, list[Path]]:
    files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if _is_data(place, file))
    if not files:
        raise Error(f"{asked}: has no file of data there; give another one, or a folder or file in it")
    uses = {file: _use(file.relative_to(place.parent)) for file in files}
    found = {use: [file for file in files if uses[file] == use] for use in _WORDS}
    found["data"] = found["data"] or [file for file in files if uses[file] is None] or files
    for some in found.values():
        for what, kinds in (("folders", {file.parent.relative_to(place.parent) for file in some}),
                            ("kinds of files", {file.suffix for file in some})):  # fmt: skip
            if len(kinds) > 1:
                one = some[0].parent if what == "folders" else some[0]
                names = listed(sorted(map(str, kinds)), "and")
                raise Error(
                    f"{asked}: has data in several {what}, {names}; give one, such as "
                    f"{_within(asked, one.relative_to(place))}"
                )
    return found


def _is_data(place: Path, file: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(place).parts)
    return file.is_file() and not hidden and file.name.lower().endswith(ENDINGS)


def _use(path: Path) -> str | None:
    for part in reversed(path.parts):
        words = set(re.split(r"[^a-z0-9]+", part.lower()))
        for use, known in _WORDS.items():
            if words & known:
                return use
    return None


def _within(asked: str, path: Path) -> str:
    name, at, revision = asked.partition("@")
    return f"{name}/{path}{at}{revision}"
