# SPDX-License-Identifier: Apache-2.0
"""Chat templates without a tokenizer."""

from pathlib import Path

from mebp.data.chat_template import ChatTemplate


class Beside:
    """What a chat template asks of the tokenizer that it belongs to."""

    named_special_tokens = {"eos_token": "</s>"}  # noqa: RUF012

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder
        (folder / "chat_template.jinja").write_text(source)

    def settings(self, file: str) -> dict:
        return {}


def template_of(folder: Path, source: str) -> ChatTemplate:
    return ChatTemplate(Beside(folder, source))
