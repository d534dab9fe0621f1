# SPDX-License-Identifier: Apache-2.0
"""What --data names: files and folders, each with its share of an epoch where one is given."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mebp.data.columns import AS_NAMED, Columns
from mebp.data.counting import AS_USUAL, Counting
from mebp.data.hub import SCHEME, HubData, fetch, is_hub
from mebp.data.splits import data_files
from mebp.errors import Error
from mebp.files import user_path


@dataclass(frozen=True)
class Source(os.PathLike):
    """It stands for its path where one is asked for."""

    path: Path  # a file, or a folder of files that are read as one
    share: float | None = None  # of the rows of an epoch
    columns: Columns = AS_NAMED
    hub: HubData | None = None  # that `path` is of
    use: str = "data"  # which of its files: those to train on, or for "eval" or "test"
    counting: Counting = AS_USUAL

    @classmethod
    def of(
        cls,
        given: "str | os.PathLike[str] | Source",
        columns: Columns | None = None,
        use: str = "data",
        counting: Counting | None = None,
    ) -> "Source":
        """A path, without a share, or a data set of the hub; with `columns` and `counting`, where they are given, in
        place of its own.

        Raises mebp.Error where the hub does not have it.
        """
        if isinstance(given, Source):
            source = given
        elif is_hub(given):
            hub = fetch(os.fspath(given))
            source = cls(hub.folder, hub=hub, use=use)
        else:
            source = cls(user_path(given))
        given_too = {"columns": columns, "counting": counting}
        return replace(source, **{name: value for name, value in given_too.items() if value is not None})

    @classmethod
    def read(cls, given: "str | os.PathLike[str] | Source") -> "Source":
        """FILE or FILE:SHARE; a file whose name is like that is taken by its name."""
        if isinstance(given, Source):
            return given
        if not isinstance(given, str | os.PathLike):
            raise Error(f"data is {given!r}; give a path, or several")
        written, path = os.fspath(given), user_path(given)
        name, colon, number = written.rpartition(":")
        if not (name and colon) or path.exists():
            return cls.of(given)
        try:
            share = float(number)
        except ValueError:
            return cls.of(given)
        if not (math.isfinite(share) and 0 < share < 1):
            raise Error(
                f"--data {written}: the share is {number}; give a number above 0 and below 1, such as {name}:0.2"
            )
        return replace(cls.of(name), share=share)

    def files(self) -> list[Path]:
        """Raises mebp.Error where a folder has none."""
        if self.hub:
            return list(self.hub.files[self.use] or self.hub.files["data"])
        return data_files(self.path) if self.path.is_dir() else [self.path]

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def asked(self) -> str:
        """As it was written."""
        return self._with_share(self.hub.asked if self.hub else str(self.path))

    @property
    def short(self) -> "Source":
        """The same for people elsewhere, who need no path."""
        return self if self.hub else replace(self, path=Path(self.path.name))

    def __str__(self) -> str:
        return self._with_share(self.hub.exact if self.hub else str(self.path))

    def _with_share(self, name: str) -> str:
        return name if self.share is None else f"{name}:{self.share:g}"


def read_sources(given: object) -> tuple[Source, ...]:
    """One or several, as a command line or a call has them; raises mebp.Error where they do not go together."""
    several = given if isinstance(given, list | tuple) else [given]
    sources = tuple(Source.read(each) for each in several)
    if not sources:
        raise Error("--data is empty; give a file")
    for index, source in enumerate(sources):
        if any(source.path == other.path for other in sources[:index]):
            raise Error(f"--data {source.path} is given twice; keep one, and give it a share if it is to count more")
    shares = [source.share for source in sources if source.share is not None]
    total = math.fsum(shares)
    if len(sources) == 1 and shares:
        raise Error(f"--data {sources[0]}: a share is of several files; leave it out, or give another --data")
    if len(shares) == len(sources) and shares and not math.isclose(total, 1, abs_tol=1e-6):
        raise Error(f"the shares of --data are {total:g} together; make it 1, or leave one out, which takes the rest")
    if len(shares) < len(sources) and total >= 1:
        raise Error(f"the shares of --data are {total:g} together; leave something to the file without a share")
    return sources


def told(sources: Sequence[Source]) -> str:
    return ", ".join(map(str, sources))


def names_of(sources: Sequence[Source]) -> list[str]:
    """A short name for each: that of the file, or more of its path where others have the same."""
    named = [Path(source.hub.asked.removeprefix(SCHEME)) if source.hub else source.path for source in sources]
    parts = [path.absolute().parts for path in named]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return names


def check_no_shares(sources: Sequence[Source], objective: str) -> list[Source]:
    """The sources, which an objective puts together one after the other."""
    for source in sources:
        if source.share is not None:
            raise Error(f"--data {source}: {objective} takes every sample once an epoch; leave the share out")
    return list(sources)
