# SPDX-License-Identifier: Apache-2.0
"""What the pages tell a reader to type can be typed, and what they point to is there."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from mebp.cli.main import make_parsers

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ROOT / "docs" / "cli.md"  # which test/e2e/test_docs.py holds against the commands' own help
FOLDERS = ("", "docs/", "docs/contributing/", "docs/images/", "examples/")
PAGES = sorted({page for folder in FOLDERS for page in ROOT.glob(f"{folder}*.md")} - {OPTIONS})
COMMAND = re.compile(r"(?:\$ )?((?:mebp|mebpc|mebp-run) .+)")


def commands(page: Path, mentioned: bool = True) -> Iterator[list[str]]:
    """The words of each command in the page's blocks of code; of those between backticks, too, if `mentioned`."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    if mentioned:
        lines += re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    for line in lines:
        if found := COMMAND.fullmatch(line.strip()):
            yield _before_pipes(shlex.split(found[1], comments=True))


def _before_pipes(words: list[str]) -> list[str]:
    ends = [index for index, word in enumerate(words) if word in ("|", ">", "&&", ";")]
    return words[: ends[0]] if ends else words


def known_options() -> dict[str, set[str]]:
    """{"mebp train": {"--data", ...}, ...}"""
    sections = re.split(r"^## ", OPTIONS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {
        section.splitlines()[0]: set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", section)) | {"--help"}
        for section in sections
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_exist(page):
    known = known_options()
    assert "--data" in known["mebp train"] and "--weights" in known["mebpc"]
    for words in commands(page):
        name = " ".join(words[:2]) if words[0] == "mebp" else words[0]
        if name in ("mebp --help", "mebp --version"):
            continue
        assert name in known, words
        assert not [word for word in words if re.match(r"--?[a-z]", word) and word not in known[name]], words


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "tutorial.md"], ids=lambda page: page.name)
def test_whole_commands_are_understood(page):
    parsers = make_parsers()
    whole = [words for words in commands(page, mentioned=False) if words[0] == "mebp"]
    assert len(whole) >= 5
    for words in whole:
        parsers[words[1]].parse_args(words[2:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing
