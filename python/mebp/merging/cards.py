# SPDX-License-Identifier: Apache-2.0
"""The losses on model cards: the adapter's, and one beside a merged folder."""

import re
from pathlib import Path

from mebp.files import replaced_file
from mebp.merging.served import ServedLosses
from mebp.outputs import MARK
from mebp.training.markdown import code
from mebp.training.model_card import CARD, is_own_card

_BEGIN, _END = "<!-- losses of mebp merge -->", "<!-- end of losses -->"
_SECTION = re.compile(rf"{re.escape(_BEGIN)}.*?{re.escape(_END)}\n?", re.DOTALL)


def write_losses(adapter: Path, output: Path, losses: ServedLosses) -> None:
    """Into the adapter's card, in place of those of an earlier merge, and into the merged folder. A README.md of
    somebody else stays. Raises mebp.Error where one cannot be written."""
    section = _section(losses)
    card = adapter / CARD
    if card.is_file() and is_own_card(card):
        before = _SECTION.sub("", card.read_text(encoding="utf-8")).rstrip("\n")
        _write(card, f"{before}\n\n{section}")
    if output.is_dir() and is_own_card(output / CARD):
        front = ["---", "library_name: transformers", "tags: [mebp]", "---", f"<!-- {MARK} -->"]
        _write(output / CARD, "\n".join([*front, "# A merged model", "", section]))


def _write(card: Path, text: str) -> None:
    with replaced_file(card, "choose another place") as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def _section(losses: ServedLosses) -> str:
    rows = [("", "without the adapter", "with it"), ("---", "---", "---"), *losses.rows()]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    data = f"In nats per token, on {code(losses.short_data)}, with activations in {losses.precision}."
    return f"{_BEGIN}\n## Losses\n\n{data}\n\n{table}\n{_END}\n"
