# SPDX-License-Identifier: Apache-2.0
"""Draws the training run that README.md shows, as a terminal has it: python docs/images/draw_transcript.py"""

import io
import re
from pathlib import Path

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "images" / "training.svg"
COLUMNS = 124
# Pictures in a page load no fonts: the reader's own serves. Some viewers drop spaces unless told to keep them.
SVG = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")
SVG = re.sub("<!--.*?-->\\s*", "", SVG).replace("<svg ", '<svg xml:space="preserve" ', 1)


def transcript(page: str) -> list[str]:
    """The lines of the one block of the page in which mebp trains."""
    blocks = re.findall(r"^```\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if "\n$ mebp train " in f"\n{block}"]
    return found.splitlines()


def draw(lines: list[str], picture: Path) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        if line.startswith("$ "):
            console.print(Text(line, style="bold"))
        else:
            console.print(line, markup=False, emoji=False)
    console.save_svg(str(picture), title="", code_format=SVG)


if __name__ == "__main__":
    draw(transcript((ROOT / "README.md").read_text(encoding="utf-8")), PICTURE)
