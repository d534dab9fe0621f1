# SPDX-License-Identifier: Apache-2.0
"""What a folder for transformers has beside a model's weights, from the bundle."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

from mebp.element_types import ELEMENT_TYPES
from mebp.exporter.foreign_code import without_code
from mebp.exporter.naming import without_homes
from mebp.exporter.template_files import FOLDER, template_files
from mebp.exporter.tokenizer import TOKENIZER_FILES
from mebp.files import own_file, plain_file, read_json

_ADVICE = "export and compile the model again"
_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")
# Which versions of transformers have written into them.
_PLACES = ("_name_or_path", "name_or_path", "special_tokens_map_file", "tokenizer_file", "tokenizer_config_file")


def copy_files(source: Path, target: Path) -> None:
    """Copies the regular files in `source`: a link may lead to any file of whoever writes the folder. Settings that say
    where somebody kept the model stay behind."""
    for file in sorted(source.iterdir()):
        if not file.is_file() or file.is_symlink():
            continue
        _copy_file(file, target)
    copy_templates(source, target)


def _copy_file(file: Path, target: Path) -> None:
    if file.name in _SETTINGS:
        settings = _without_places(read_json(file, _ADVICE))
        (target / file.name).write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        shutil.copy(file, target / file.name)


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copies the files of the tokenizer in `source`, without the model's own settings."""
    for name in sorted({*TOKENIZER_FILES} - {"config.json", "generation_config.json"}):
        if own_file(source / name).is_file():
            _copy_file(source / name, target)
    copy_templates(source, target)


def copy_templates(source: Path, target: Path) -> None:
    """Copies the files of chat templates in `source`."""
    for name in template_files(source):
        (target / name).parent.mkdir(exist_ok=True)
        shutil.copy(plain_file(source / name), target / name)


def discard_templates(folder: Path) -> None:
    """Removes what copy_templates has left in `folder`."""
    for name in template_files(folder):
        (folder / name).unlink()
    with suppress(OSError):  # it is not there, or something else is in it
        (folder / FOLDER).rmdir()


def _without_places(settings: dict) -> dict:
    return {name: value for name, value in settings.items()
            if not (name in _PLACES and isinstance(value, str) and without_homes(value) != value)}  # fmt: skip


def model_config(path: Path, dtype: str) -> dict:
    """The model's settings in that file, of weights of that type, without what would choose code where they are read,
    and without how the weights were quantised that the model was exported from."""
    config, _ = without_code(_without_places(read_json(plain_file(path), _ADVICE)))
    config.pop("torch_dtype", None)  # as it was once called
    config.pop("quantization", None)  # MLX's, which its readers would look for in the weights
    config["dtype"] = ELEMENT_TYPES[dtype].torch
    return config
