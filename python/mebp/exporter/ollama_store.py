# SPDX-License-Identifier: Apache-2.0
"""Models in Ollama's store: ollama:NAME is the GGUF file that its manifest names, read where it lies.

A name has up to four parts, HOST/NAMESPACE/MODEL:TAG, of which only MODEL is needed. The manifest is the JSON file
manifests/HOST/NAMESPACE/MODEL/TAG, whose layers are files by their digest, blobs/sha256-HEX.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mebp.errors import Error, reason
from mebp.files import read_json, user_path

SCHEME = "ollama:"
_HOST, _NAMESPACE, _TAG = "registry.ollama.ai", "library", "latest"
_SERVICE = Path("/usr/share/ollama/.ollama/models")  # of Ollama's own user, where Linux runs it as a service
# A part begins with neither a dot nor a stroke, so none leads out of the store.
_HOST_FORM = re.compile(r"[A-Za-z0-9_][\w.:-]{0,349}", re.ASCII)
_NAMESPACE_FORM = re.compile(r"[A-Za-z0-9_][\w-]{0,79}", re.ASCII)
_PART_FORM = re.compile(r"[A-Za-z0-9_][\w.-]{0,79}", re.ASCII)
_DIGEST = re.compile(r"sha256[:-]([0-9a-fA-F]{64})")
_KIND = "application/vnd.ollama.image."
_MODEL, _ADAPTER, _PROJECTOR, _TENSOR = (_KIND + name for name in ("model", "adapter", "projector", "tensor"))


class Name(NamedTuple):
    host: str
    namespace: str
    model: str
    tag: str

    @classmethod
    def of(cls, asked: str) -> "Name":
        """Raises mebp.Error where it is not a name of Ollama's."""
        name = asked.removeprefix(SCHEME)
        before, colon, tag = name.rpartition(":")
        if not colon or "/" in tag:
            before, tag = name, _TAG
        *rest, model = before.split("/")
        parts = [*[_HOST, _NAMESPACE][: max(0, 2 - len(rest))], *rest, model, tag]
        forms = (_HOST_FORM, _NAMESPACE_FORM, _PART_FORM, _PART_FORM)
        if len(parts) != len(forms) or not all(form.fullmatch(part) for form, part in zip(forms, parts, strict=True)):
            raise Error(f"{asked}: is not the name of a model in Ollama; give {SCHEME}NAME:TAG, as ollama list has it")
        return cls(*parts)

    def __str__(self) -> str:
        """As Ollama lists it: without the parts that are the usual ones, but with the tag."""
        before = [self.host, self.namespace] if self.host != _HOST else [self.namespace]
        return "/".join([*([] if before == [_NAMESPACE] else before), f"{self.model}:{self.tag}"])


class Stored(NamedTuple):
    name: Name
    blob: Path  # the GGUF file
    has_projector: bool


def canonical(model: str) -> str:
    """`model`, where it is one of the store with all that its name leaves out; any other as it is."""
    if not model.startswith(SCHEME):
        return model
    try:
        return f"{SCHEME}{Name.of(model)}"
    except Error:
        return model


def find(asked: str) -> Stored:
    """The model `ollama:NAME`. Raises mebp.Error where the store has none, or it is not one GGUF file."""
    name = Name.of(asked)
    store = _store_with(asked, name)
    pull = _pull(asked)
    manifest = read_json(store.joinpath("manifests", *name), pull)
    layers = _layers(asked, manifest, pull)
    models = [each for each in layers if each["mediaType"] == _MODEL]
    kinds = {each["mediaType"] for each in layers}
    if _TENSOR in kinds:
        raise Error(
            f"{asked}: is stored tensor by tensor (safetensors) and not as a GGUF file; give its Hugging Face folder"
        )
    if _ADAPTER in kinds:
        raise Error(
            f"{asked}: is a model with an adapter, and only the model would be read; give the model that it was made "
            "FROM (ollama show --modelfile), or merge the adapter into it first"
        )
    if len(models) > 1:
        raise Error(f"{asked}: has its model in {len(models)} files, and only one is read; join them in a GGUF file")
    if not models:
        raise Error(_without_model(asked, manifest, store, pull))
    return Stored(name, _blob(asked, models[0], store, pull), _PROJECTOR in kinds)


def _store_with(asked: str, name: Name) -> Path:
    """The store that has a manifest of this name."""
    # As Ollama reads its settings, which may stand in quotes.
    told = os.environ.get("OLLAMA_MODELS", "").strip().strip("\"'")
    stores = [Path(told)] if told else [user_path("~/.ollama/models"), _SERVICE]
    for store in stores:
        try:
            store.joinpath("manifests", *name).stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise Error(
                f"{asked}: Ollama's store {store} cannot be read ({reason(error)}); let your user read it, or give "
                "OLLAMA_MODELS another one"
            ) from error
        return store
    if name.tag == "cloud" or name.tag.endswith("-cloud"):
        raise Error(_in_the_cloud(asked))
    places = " or ".join(map(str, stores))
    raise Error(f"{asked}: is not in Ollama's store ({places}); {_pull(asked)}, or set OLLAMA_MODELS")


def _pull(asked: str) -> str:
    return f"run ollama pull {asked.removeprefix(SCHEME)}"


def _layers(asked: str, manifest: Mapping, pull: str) -> Sequence[Mapping]:
    found = manifest.get("layers")
    if found is None:
        found = []  # of a cloud model
    if not isinstance(found, list) or not all(
        isinstance(each, dict) and isinstance(each.get("mediaType"), str) for each in found
    ):
        raise Error(f"{asked}: its manifest has no list of layers; {pull}")
    return found


def _blob(asked: str, layer: Mapping, store: Path, pull: str) -> Path:
    digest, size = layer.get("digest"), layer.get("size")
    match = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if match is None:
        raise Error(f"{asked}: its manifest names a file by what is no SHA-256 digest, {digest!r:.60}; {pull}")
    blob = store / "blobs" / f"sha256-{match[1]}"
    try:
        found = blob.stat().st_size
    except OSError as error:
        raise Error(f"{asked}: its file {blob.name[:19]} is not in {blob.parent} ({reason(error)}); {pull}") from error
    if type(size) is not int or found != size:
        told = f"has {found} bytes, and its manifest says {size!r:.20}"
        raise Error(f"{asked}: its file {blob.name[:19]} {told}; {pull}")
    return blob


def _without_model(asked: str, manifest: Mapping, store: Path, pull: str) -> str:
    """Why there is none."""
    config = manifest.get("config")
    digest = config.get("digest") if isinstance(config, dict) else None
    match = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if match is not None:
        file = store / "blobs" / f"sha256-{match[1]}"
        if file.is_file() and any(read_json(file, pull).get(key) for key in ("remote_host", "remote_model")):
            return _in_the_cloud(asked)
    return f"{asked}: its manifest names no model; {pull}"


def _in_the_cloud(asked: str) -> str:
    return f"{asked}: is a cloud model, whose weights are not on this machine; give one that ollama pull downloads"
