# SPDX-License-Identifier: Apache-2.0
"""What a model has beside the text that was trained of it: a merged folder is the whole model's, so the rest of its
tensors is copied from the model's own files, byte for byte, and the text's tensors get the names that those have."""

import json
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from mebp.errors import Error
from mebp.exporter.checkpoint import StoredTensor, read_checkpoint
from mebp.exporter.finding import find_model
from mebp.exporter.text_parts import TextPart, is_carried, text_name_of_stored
from mebp.files import check_space, own_file
from mebp.merging.published import known_models
from mebp.tensor_file import copy_tensors

TEXT, REST = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
_INDEX = "model.safetensors.index.json"
_SETTINGS = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
# Of the text, under another name: an expert's part of a tensor that a bundle has joined, and a tied head.
_IS_WRITTEN = re.compile(r"\.experts\.\d+\.|(^|\.)lm_head\.weight$")


class BesideText:
    """Of one model. `names` gives each tensor of the text the name that the model's files have for it."""

    def __init__(self, folder: Path, part: TextPart, tensors: Collection[str]) -> None:
        """tensors: those of the text that are written, by their names in the whole class."""
        self._folder = folder
        checkpoint = read_checkpoint(folder)
        whole = {name: part.whole_name(text_name_of_stored(name) or name) for name in checkpoint}
        stored = {called: name for name, called in whole.items() if not is_carried(name)}
        self.names = {name: stored.get(name, name) for name in tensors}
        written = {*self.names.values(), *tensors}
        self._rest: Mapping[str, StoredTensor] = {
            name: tensor
            for name, tensor in checkpoint.items()
            if is_carried(name) or (name not in written and not _IS_WRITTEN.search(name))
        }

    @property
    def bytes(self) -> int:
        return sum(tensor.length for tensor in self._rest.values())

    def write(self, folder: Path) -> None:
        """Into the folder of a merged model, which has its text in TEXT already."""
        check_space(folder, self.bytes, "what the model has beside its text")
        copy_tensors(folder / REST, self._rest)
        files = dict.fromkeys(self.names.values(), TEXT) | dict.fromkeys(self._rest, REST)
        size = (folder / TEXT).stat().st_size + (folder / REST).stat().st_size
        index = {"metadata": {"total_size": size}, "weight_map": files}
        (folder / _INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
        for name in _SETTINGS:
            if own_file(self._folder / name).is_file():
                shutil.copy(self._folder / name, folder / name)


def find_whole_model(bundle: Path, stated: str, adapter: Path, base: str | None) -> Path:
    """The folder of the model that a bundle was made of. base: what the user calls it, which may be fetched; None for
    what this machine has made the adapter of, or what the bundle states, if that is here.

    Raises mebp.Error where there is none.
    """
    if base is not None:
        return find_model(base).place
    if found := next((each for each in known_models(stated, adapter) if each.place.is_dir()), None):
        return found.place
    raise Error(
        f"{bundle}: is the text of '{stated}', which takes more than text and is not here as it was; give --base "
        "MODEL, whose other tensors are copied"
    )
