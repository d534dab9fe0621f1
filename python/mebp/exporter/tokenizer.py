# SPDX-License-Identifier: Apache-2.0
"""The tokenizer's files, which travel along so that a bundle can be trained on text."""

import json
from pathlib import Path

from mebp.errors import Error
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
PIECES = "chat.json"  # the chat template for whoever has no Jinja; docs/format.md says what it holds


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


def write_pieces(folder: Path, model: str) -> None:
    """Writes the chat template of the tokenizer in `folder` in pieces beside it; says why where it has none."""
    from mebp.data.chat_template import has_template  # which reads template_files of this package
    from mebp.data.checking_pieces import pieces_of
    from mebp.data.finding_pieces import UncomposedError
    from mebp.tokenizer import Tokenizer

    if not (folder / "tokenizer.json").is_file():
        return
    try:
        tokenizer = Tokenizer.of_model(folder)
        if not has_template(tokenizer):
            return
        found = pieces_of(tokenizer).to_json()
    except (UncomposedError, Error) as error:
        why = str(error).replace(str(folder), "tokenizer")  # the folder has another name when the export is whole
        say(f"note: {model}: its chat template does not come in pieces, so C cannot use it: {why}", error=True)
        return
    (folder / PIECES).write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
