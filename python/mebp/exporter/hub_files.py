# SPDX-License-Identifier: Apache-2.0
"""GGUF files of the hub: hub:OWNER/NAME:QUANTISATION is the one file of a repository that has it."""

import glob
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from mebp.errors import Error
from mebp.exporter.naming import HubName
from mebp.gguf import GGUF_SUFFIX
from mebp.words import listed

SCHEME = "hub:"
_WANTED = re.compile(r"[\w][\w. -]*(?:/[\w][\w. -]*)*", re.ASCII)
_PIECE = re.compile(r"-(\d{5})-of-(\d{5})$", re.ASCII)
_KNOWN = re.compile(r"[-._]((?:UD-)?(?:I?Q\d\w*|B?F16|FP16|F32|MXFP4\w*|TQ\d\w*))$", re.ASCII | re.IGNORECASE)
_OTHERS = ("mmproj", "imatrix")  # what files begin with that are no models
_SHOWN = 12  # of what a repository has


class HubFile(NamedTuple):
    """hub:OWNER/NAME, with a quantisation or a file's name behind a colon; and a revision behind an @."""

    id: str  # all before the @
    revision: str | None = None

    @classmethod
    def of(cls, name: str) -> "HubFile | None":
        """None where `name` has another form."""
        if not name.startswith(SCHEME):
            return None
        id, _, _ = name.partition("@")
        repository, colon, wanted = id.removeprefix(SCHEME).partition(":")
        hub = HubName.of(repository + name.removeprefix(id))
        if hub is None or "/" not in repository or (colon and not _WANTED.fullmatch(wanted)):
            return None
        return cls(id, hub.revision)

    @property
    def repository(self) -> HubName:
        return HubName(self.id.removeprefix(SCHEME).partition(":")[0], self.revision)

    @property
    def wanted(self) -> str:
        """The quantisation, or the file's name; "" where neither was named."""
        return self.id.removeprefix(SCHEME).partition(":")[2]

    @property
    def is_exact(self) -> bool:
        return self.repository.is_exact

    def __str__(self) -> str:
        return f"{self.id}@{self.revision}" if self.revision else self.id


def name_on_hub(name: str) -> HubName | HubFile | None:
    """A model's or a file's there; None where `name` is another one."""
    return HubName.of(name) or HubFile.of(name)


def read_name(asked: str) -> HubFile:
    """Raises mebp.Error where it is none."""
    found = HubFile.of(asked)
    if found is None:
        raise Error(f"{asked}: is not a GGUF file of the hub; give hub:OWNER/NAME:Q4_K_M, and @REVISION behind it")
    return found


def public_name(name: str) -> str | None:
    """The hub id of the repository, of a name that HubFile reads."""
    found = HubFile.of(name)
    return found and found.repository.id


def gguf_files(repository: HubName, folder: Path) -> Sequence[str]:
    """The models among the files of a repository at a commit, as paths in it; where the hub does not answer, those that
    are here.

    folder: the snapshot of the commit in the hub's cache.
    """
    from huggingface_hub import HfApi

    try:
        names = HfApi().list_repo_files(repository.id, revision=repository.revision)
    except Exception:  # whatever it is, what is here already needs no hub
        names = [file.relative_to(folder).as_posix() for file in folder.rglob(f"*{GGUF_SUFFIX}")]
    files = sorted(name for name in names if name.lower().endswith(GGUF_SUFFIX) and name.isprintable())
    return [name for name in files if not PurePosixPath(name).name.lower().startswith(_OTHERS)]


def choose_file(asked: HubFile, files: Sequence[str]) -> str:
    """The one that `asked` wants. Raises mebp.Error where there is none, where there are several, and where it is in
    pieces."""
    models: dict[str, list[str]] = {}  # without the numbers of their pieces
    for file in files:
        models.setdefault(_PIECE.sub("", file[: -len(GGUF_SUFFIX)]), []).append(file)
    if not models:
        raise Error(f"{asked}: the repository has no GGUF file; give OWNER/NAME, if it has a model for transformers")
    found = [model for model in models if _is_wanted(model, asked.wanted.lower())]
    if len(found) != 1:
        what = f"no GGUF file of {asked.wanted}" if not found else f"{len(found)} GGUF files"
        of_wanted = f" of {asked.wanted}" if found and asked.wanted else ""
        names = [*dict.fromkeys(_label(model, models) for model in found or models)]
        more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        way = f"{SCHEME}{asked.repository.id}:NAME"
        raise Error(f"{asked}: has {what}{of_wanted}; give {way} with {listed([*names[:_SHOWN], *more])}")
    (file, *others) = models[found[0]]
    piece = _PIECE.search(file[: -len(GGUF_SUFFIX)])
    if others or (piece and int(piece[2]) > 1):
        count = int(piece[2]) if piece else len(others) + 1
        raise Error(
            f"{asked}: is in {count} pieces, and one file is read; download them, join them with llama-gguf-split "
            f"--merge {PurePosixPath(file).name} NEW{GGUF_SUFFIX}, and give the new file"
        )
    return file


def pattern_of(file: str) -> str:
    """For huggingface_hub: this file alone."""
    return glob.escape(file)


def _is_wanted(model: str, wanted: str) -> bool:
    model, wanted = model.lower(), wanted.removesuffix(GGUF_SUFFIX)
    name = PurePosixPath(model).name
    return not wanted or wanted in (model, name) or name.endswith((f"-{wanted}", f".{wanted}"))


def _label(model: str, models: Iterable[str]) -> str:
    """What chooses it: its quantisation, or where that does not tell it from others its name."""
    name = PurePosixPath(model).name
    known = _KNOWN.search(name)
    if known is None or any(_is_wanted(each, known[1].lower()) for each in models if each != model):
        return name
    return known[1]
