# SPDX-License-Identifier: Apache-2.0
"""What a folder for transformers has beside a model's weights, from the bundle."""

import shutil
from pathlib import Path

from mebp.element_types import ELEMENT_TYPES
from mebp.exporter.foreign_code import without_code
from mebp.files import plain_file, read_json


def copy_files(source: Path, target: Path) -> None:
    """Copies the regular files in `source`: a link may lead to any file of whoever writes the folder."""
    for file in sorted(source.iterdir()):
        if file.is_file() and not file.is_symlink():
            shutil.copy(file, target / file.name)


def model_config(path: Path, dtype: str) -> dict:
    """The model's settings in that file, of weights of that type, without what would choose code where they are read,
    and without how the weights were quantised that the model was exported from."""
    config, _ = without_code(read_json(plain_file(path), "export and compile the model again"))
    config.pop("torch_dtype", None)  # as it was once called
    config["dtype"] = ELEMENT_TYPES[dtype].torch
    return config
