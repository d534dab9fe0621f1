# SPDX-License-Identifier: Apache-2.0
"""The tokenizer's files, which travel along so that a bundle can be trained on text."""

from pathlib import Path

from mebp.exporter.template_files import template_files
from mebp.files import own_file, read_bytes
from mebp.words import say

_VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
TOKENIZER_FILES = (  # beside the chat templates
    *_VOCABULARIES,
    "merges.txt",
    "added_tokens.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.json",
    "generation_config.json",
    "config.json",
)


def tokenizer_files(folder: Path) -> list[str]:
    """Names, seen from `folder`, of all that is there of a tokenizer, with its chat templates."""
    return [*(name for name in TOKENIZER_FILES if own_file(folder / name).is_file()), *template_files(folder)]


def copy_tokenizer(source: Path, target: Path, model: str) -> None:
    """Copies the tokenizer, the generation settings and config.json of `model`, which lies in `source`, into the new
    folder `target`; warns where there is no tokenizer."""
    target.mkdir()
    for name in tokenizer_files(source):
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_bytes(read_bytes(source / name, "download it again"))
    if not any((target / name).exists() for name in _VOCABULARIES):
        hint = "to train on text, put one into tokenizer/ beside the ONNX file"
        say(f"warning: {model} comes without a tokenizer; {hint}", error=True)
