# SPDX-License-Identifier: Apache-2.0
"""The picture of a terminal in README.md is of the run whose text README.md has."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "images"))

from draw_transcript import PICTURE, draw, transcript  # noqa: E402


def test_the_picture_is_drawn_from_the_transcript(tmp_path):
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert PICTURE.relative_to(ROOT).as_posix() in page
    draw(transcript(page), tmp_path / "picture.svg")
    same = (tmp_path / "picture.svg").read_bytes() == PICTURE.read_bytes()
    assert same, "the transcript has changed: run python docs/images/draw_transcript.py"
