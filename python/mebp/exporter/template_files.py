# SPDX-License-Identifier: Apache-2.0
"""Where a model keeps its chat templates, of which transformers knows several by their names."""

from collections.abc import Mapping
from pathlib import Path

from mebp.files import own_file, read_text

FILE, FOLDER = "chat_template.jinja", "additional_chat_templates"
DEFAULT, TOOLS = "default", "tool_use"  # what is rendered, and what instead where there are tools
_ADVICE = "export the model again"


def template_files(folder: Path) -> list[str]:
    """Names, seen from `folder`, of the files that hold one template each."""
    others = sorted(file.name for file in own_file(folder / FOLDER).glob("*.jinja"))
    return [name for name in (FILE, *(f"{FOLDER}/{other}" for other in others)) if own_file(folder / name).is_file()]


def read_templates(folder: Path, settings: Mapping[str, object]) -> dict[str, str]:
    """The templates of `folder` by their names; `settings` are those of its tokenizer_config.json, which count where
    there is no file."""
    names = template_files(folder)
    if names:
        found = {Path(name).stem if name != FILE else DEFAULT: name for name in names}
        return {name: read_text(folder / file, _ADVICE) for name, file in found.items()}
    stated = settings.get("chat_template")
    if isinstance(stated, list):
        stated = {str(entry.get("name")): entry.get("template") for entry in stated if isinstance(entry, dict)}
    if not isinstance(stated, dict):
        stated = {DEFAULT: stated}
    return {name: template for name, template in stated.items() if isinstance(template, str)}
