# SPDX-License-Identifier: Apache-2.0
"""The config.json of an adapter's base model: it says how many heads there are, and whether the head is tied."""

from collections.abc import Mapping
from pathlib import Path

from mebp.errors import Error, reason
from mebp.extras import need_packages
from mebp.files import own_file, read_json, user_path
from mebp.gguf.architectures import architecture_named
from mebp.gguf.container import is_gguf, read_container
from mebp.gguf.metadata import model_config

_ADVICE = "give --base, a folder with the base model's config.json"


def base_config(name: str | Path | None, adapter: Path) -> Mapping:
    """Of a Hugging Face folder, a bundle, a GGUF file or a hub id; raises mebp.Error where there is none."""
    if name is None:
        raise Error(f"{adapter}: does not say what its base model is; {_ADVICE}")
    folder = user_path(name)
    for file in (folder / "config.json", folder / "tokenizer" / "config.json"):  # a bundle has it there
        if own_file(file).is_file():
            return read_json(file, "download it again")
    if is_gguf(folder):
        container = read_container(folder)
        return model_config(
            architecture_named(container.text("general.architecture", needed=True), f"{folder}"), container
        )
    if folder.exists() or Path(name).is_absolute():
        raise Error(f"{name}: no config.json of the base model; {_ADVICE}")
    return read_json(_download(str(name)), "download it again")


def _download(name: str) -> Path:
    need_packages(f"{name}: fetching its config.json", "export", "huggingface_hub")
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(name, "config.json"))
    except Exception as error:
        raise Error(f"{name}: the base model is not here, and the hub did not give it ({reason(error)}); {_ADVICE}"
                    ) from error  # fmt: skip
