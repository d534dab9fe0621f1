# SPDX-License-Identifier: Apache-2.0
"""An adapter's base model: its config.json says how many heads there are, and whether the head is tied."""

import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Protocol

from mebp.adapters.origin import Origin
from mebp.errors import Error
from mebp.exporter import hub_files, ollama_store, packaged
from mebp.exporter.finding import Found, download, find_here, find_model
from mebp.exporter.naming import HubName, hub_name, shared_name, shared_path
from mebp.extras import need_packages
from mebp.files import own_file, read_json, user_path
from mebp.gguf.architectures import architecture_in
from mebp.gguf.container import is_gguf, read_container
from mebp.gguf.metadata import model_config
from mebp.words import say

_ADVICE = "give --base, a folder with the base model's config.json"
_AGAIN = "download it again"
_CONFIG = "config.json"
_KEPT = (ollama_store.SCHEME, hub_files.SCHEME)  # of files that a store or the hub's cache keeps


class Base(Protocol):
    """`name` is what a new adapter says of it: nothing that others may not read."""

    @property
    def name(self) -> str | None: ...
    @property
    def config(self) -> Mapping: ...


class AskedBase:
    """Which the user names: a Hugging Face folder, a bundle, a GGUF file, packaged:NAME, ollama:NAME or a hub id."""

    def __init__(self, asked: str | os.PathLike[str]) -> None:
        """Nothing is read or fetched before it is needed."""
        self._asked = os.fspath(asked)
        self._place = _place(self._asked)
        self._is_kept = not self._place.exists() and self._asked.startswith(_KEPT)
        is_path = self._place.exists() or self._place.is_absolute() or self._is_kept
        self._hub = None if is_path else hub_name(self._asked)

    @property
    def name(self) -> str:
        if self._is_kept:
            return self._found.origin
        return shared_path(self._place) if self._hub is None else str(self._hub)

    @cached_property
    def _found(self) -> Found:
        found = find_model(self._asked)
        if found.note:
            say(found.note)
        return found

    @cached_property
    def config(self) -> Mapping:
        """Raises mebp.Error where there is none."""
        if self._is_kept:
            return _config_kept(self._found)
        if self._hub is None:
            if found := _config_at(self._place):
                return found
            raise Error(f"{self._asked}: no config.json of the base model; {_ADVICE}")
        need_packages(f"{self._asked}: fetching its config.json", "export", "huggingface_hub")
        found = download(self._hub, [_CONFIG])
        if found.note:
            say(found.note)
        self._hub = HubName.of(found.origin)
        return read_json(found.place / _CONFIG, _AGAIN)


class StatedBase:
    """Which the adapter names. It is read where it is on this machine: nothing is fetched because a file says so."""

    def __init__(self, stated: str | None, adapter: Path, command: str) -> None:
        """command: what the user can do where it is not here, up to --base."""
        self._stated, self._adapter, self._command = stated, adapter, command

    @property
    def name(self) -> str | None:
        return self._stated and shared_name(self._stated)

    @cached_property
    def config(self) -> Mapping:
        """Raises mebp.Error where it is not here."""
        if self._stated is None:
            raise Error(f"{self._adapter}: does not say what its base model is; {_ADVICE}")
        if found := _config_at(_place(self._stated)) or _cached(self._stated) or _kept(self._stated):
            return found
        base = shlex.quote(self._stated) if hub_files.name_on_hub(self._stated) else "MODEL"
        raise Error(
            f"{self._adapter}: its base model '{self._stated}' is not on this machine, and nothing is fetched because "
            f"an adapter names it; to use that model, run {self._command} --base {base}"
        )


class OwnBase(StatedBase):
    """Of an adapter that this machine has trained: its bundle has the config.json; where that is gone, the model is
    asked for by the name that the user gave."""

    def __init__(self, stated: str | None, adapter: Path, command: str, origin: Origin) -> None:
        super().__init__(stated, adapter, command)
        self._origin = origin

    @cached_property
    def config(self) -> Mapping:
        found = _config_at(Path(self._origin.bundle)) if self._origin.has_bundle else None
        return found or AskedBase(self._origin.model or self._origin.bundle).config


def _place(name: str) -> Path:
    return packaged.unpack(name) if name.startswith(packaged.SCHEME) else user_path(name)


def _config_at(place: Path) -> Mapping | None:
    for file in (place / _CONFIG, place / "tokenizer" / _CONFIG):  # a bundle has it there
        if own_file(file).is_file():
            return read_json(file, _AGAIN)
    if is_gguf(place):
        container = read_container(place)
        return model_config(architecture_in(container), container)
    return None


def _config_kept(found: Found) -> Mapping:
    with found.as_typed():
        if config := _config_at(found.place):
            return config
    raise Error(f"{found.typed or found.place}: no config.json of the base model; {_ADVICE}")


def _kept(name: str) -> Mapping | None:
    """What Ollama's store or the hub's cache has already."""
    found = find_here(name) if name.startswith(_KEPT) else None
    with suppress(Error):
        return found and _config_kept(found)
    return None


def _cached(name: str) -> Mapping | None:
    """What was fetched from the hub before, when the user asked for it."""
    hub = HubName.of(name)
    if hub is None:
        return None
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    file = try_to_load_from_cache(hub.id, _CONFIG, revision=hub.revision)
    return read_json(Path(file), _AGAIN) if isinstance(file, str) else None
