# SPDX-License-Identifier: Apache-2.0
"""mebp.json beside an adapter, which says what it was trained in; and which adapters this machine has trained itself.

An adapter's folder may be a stranger's. What its mebp.json says counts only where the digest of it and of the adapter's
files stands in the user's own list, in the cache. That list alone says where model and bundle are.
"""

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mebp.adapters.peft import CONFIG
from mebp.building import Built
from mebp.cache import Cache, check_writers, make_cache_folder
from mebp.errors import Error, reason
from mebp.exporter import hub_files, ollama_store, packaged
from mebp.exporter.naming import HubName, title
from mebp.files import open_regular, own_file, parse_object, read_bytes, replaced_file, user_path
from mebp.inspect import inspect
from mebp.tools import cache_folder
from mebp.version import __version__

FILE = "mebp.json"
LIST = "adapters.json"  # in the cache
_MOST = 2000  # adapters in it; the oldest go
_LARGEST = 1 << 20  # bytes of mebp.json
_LARGEST_LIST = 16 << 20
_ADVICE = "train the adapter again"
_BY = "mebp "
_SCHEMES = (packaged.SCHEME, ollama_store.SCHEME, hub_files.SCHEME)
_PROGRAM = "program.pb"  # of a bundle; it has the checksums of all its other files


@dataclass(frozen=True)
class Origin:
    """What an adapter was trained in."""

    bundle: str  # its path on this machine
    model: str | None = None  # what it was made of, as find_model takes it; None of a bundle that the user gave
    asked: str | None = None  # what the user called that
    exporting: Mapping[str, object] = field(default_factory=dict)  # options of mebp export
    compiling: Mapping[str, object] = field(default_factory=dict)  # options of mebpc
    program: str = ""  # bundle_digest of the bundle when the adapter was trained, as mebp.json has it

    @classmethod
    def of_bundle(cls, bundle: Path) -> "Origin":
        """Of one that the user gave."""
        return cls(os.path.realpath(bundle))

    @classmethod
    def of_built(cls, built: Built, asked: str) -> "Origin":
        """Of one that was made of what the user called `asked`."""
        names = whole_name(built.model), whole_name(asked)
        return cls(os.path.realpath(built.bundle), *names, built.exporting, built.compiling)

    @property
    def has_bundle(self) -> bool:
        """Whether the bundle is still there, and still the same."""
        try:
            return bundle_digest(Path(self.bundle)) == self.program
        except Error:
            return False

    def is_of(self, model: str) -> bool:
        """Whether `model` names what it was made of, or is its bundle."""
        return whole_name(model) in (self.model, self.asked, self.bundle)


def whole_name(model: str) -> str:
    """`model` as it may be called from any folder."""
    place = user_path(model)
    return os.path.realpath(place) if place.exists() else ollama_store.canonical(model)


def bundle_digest(bundle: Path) -> str:
    """What no other bundle has. Raises mebp.Error where none is there."""
    return hashlib.sha256(read_bytes(bundle / _PROGRAM, "compile it again")).hexdigest()


def write_origin(folder: Path, origin: Origin) -> str | None:
    """Writes mebp.json beside the adapter in `folder`, and takes the adapter into the list. Where it cannot, the
    adapter is as good: this returns why, in half a line. A mebp.json of somebody else stays."""
    if not _is_ours(folder / FILE):
        return f"{folder / FILE} is another program's"
    try:
        content = json.dumps(_stated(origin), indent=2) + "\n"
        with replaced_file(folder / FILE, "choose another --adapter-out") as unfinished:
            unfinished.write_text(content, encoding="utf-8")
        make_cache_folder()
        with Cache(lambda line: None).alone(cache_folder() / LIST):
            known = _read_list()
            digest, _ = _read(folder)
            known.pop(digest, None)
            files = {name: whole_name(str(origin.compiling[name])) for name in _FILES if origin.compiling.get(name)}
            known[digest] = {name: getattr(origin, name) for name in _PLACES} | {"files": files}
            newest = dict(list(known.items())[-_MOST:])
            with replaced_file(cache_folder() / LIST, "check the cache", 0o600) as unfinished:
                unfinished.write_text(json.dumps(newest, indent=1), encoding="utf-8")
    except Error as error:
        return str(error)
    except OSError as error:
        return f"{cache_folder()}: cannot be written ({reason(error)})"
    return None


def _stated(origin: Origin) -> dict[str, object]:
    """What mebp.json holds: no path of this machine."""
    description = inspect(origin.bundle)
    name = description["model"]["name"]
    options = origin.compiling or description["manifest"].get("options", {})
    return {
        "written_by": f"{_BY}{__version__}",
        "bundle": bundle_digest(Path(origin.bundle)),
        "model": name if HubName.of(name) or name.startswith(_SCHEMES) else title(name),
        "export": dict(origin.exporting),
        "compile": {name: value for name, value in options.items() if name not in _FILES},
    }


def is_known(folder: Path) -> bool:
    """Whether find_origin finds one."""
    try:
        return find_origin(folder) is not None
    except Error:
        return False


def discard_origin(folder: Path) -> None:
    """Removes mebp.json; not one of somebody else."""
    if _is_ours(folder / FILE):
        (folder / FILE).unlink(missing_ok=True)


def find_origin(folder: Path) -> Origin | None:
    """Where the adapter in `folder` comes from, if this machine has trained it, and neither it nor its mebp.json has
    changed since; None of any other. Raises mebp.Error where the list cannot be trusted."""
    if not own_file(folder / FILE).is_file():
        return None
    known = _read_list()
    if not known:
        return None
    digest, content = _read(folder)
    placed = known.get(digest)
    if not isinstance(placed, dict):
        return None
    stated = parse_object(str(folder / FILE), content, _ADVICE)
    compiling = {**stated["compile"], **placed["files"]}
    made = {"exporting": stated["export"], "compiling": compiling, "program": stated["bundle"]}
    return Origin(**{name: placed[name] for name in _PLACES}, **made)


_PLACES = ("bundle", "model", "asked")
_FILES = ("rates",)  # options of mebpc that name a file of this machine


def _read(folder: Path) -> tuple[str, bytes]:
    """The digest of mebp.json and of the adapter's files, and what mebp.json held when it was made."""
    content = read_bytes(own_file(folder / FILE), _ADVICE, _LARGEST)
    parts = [f"{FILE} {hashlib.sha256(content).hexdigest()}"]
    for file in sorted({folder / CONFIG, *folder.glob("*.safetensors")}):
        with open_regular(own_file(file), _ADVICE) as opened:
            parts.append(f"{file.name} {hashlib.file_digest(opened, 'sha256').hexdigest()}")
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest(), content


def _read_list() -> dict[str, object]:
    """Of digests, each with where its model and bundle are; empty where there is no list."""
    file = cache_folder() / LIST
    check_writers(file.parent)
    advice = "remove it; adapters that were trained before then need --base"
    try:
        status = file.lstat()
    except OSError:
        return {}
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise Error(f"{file}: is not yours alone, so what it says may be anybody's; {advice}")
    return parse_object(str(file), read_bytes(file, advice, _LARGEST_LIST), advice)


def _is_ours(file: Path) -> bool:
    """Whether it may be replaced, too where there is none."""
    if not file.is_symlink() and not file.exists():
        return True
    try:
        found = parse_object(str(file), read_bytes(own_file(file), _ADVICE, _LARGEST), _ADVICE)
    except Error:
        return False
    return str(found.get("written_by", "")).startswith(_BY)
