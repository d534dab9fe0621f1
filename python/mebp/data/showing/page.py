# SPDX-License-Identifier: Apache-2.0
"""Samples as one page, which needs nothing beside itself."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from mebp.data.showing.lines import headline
from mebp.data.showing.samples import COUNTS, CUT, SEEN, Piece, Sample
from mebp.files import replaced_file
from mebp.report.page import whole_page
from mebp.report.svg import element
from mebp.words import printable

_STYLE = Path(__file__).with_name("page.css")


def write_page(path: Path, title: str, lines: Sequence[str], samples: Sequence[Sample]) -> None:
    """lines: what is worth knowing of all samples. Writes the page whole or not at all; raises mebp.Error where it
    cannot be written."""
    with replaced_file(path, "choose another --html") as unfinished:
        unfinished.write_text(make_page(title, lines, samples), encoding="utf-8")


def make_page(title: str, lines: Sequence[str], samples: Sequence[Sample]) -> str:
    facts = element("ul", "".join(element("li", _plain(line)) for line in lines), class_="facts")
    named = {SEEN: "seen, and not learned", COUNTS: "counts in the loss", CUT: "cut, so the model does not see it"}
    legend = "".join(element("li", element("span", name, class_=kind)) for kind, name in named.items())
    begin = element("h1", _plain(title)) + facts + element("ul", legend, class_="legend")
    return whole_page(printable(title), [begin, *map(_section, samples)], more_style=_STYLE.read_text(encoding="utf-8"))


def _section(sample: Sample) -> str:
    name, _, about = headline(sample).partition(": ")
    heading = element("h2", f"{_plain(name[0].upper() + name[1:])}{element('small', _plain(about))}")
    return heading + element("pre", "".join(map(_shown, sample.pieces)), class_="sample")


def _shown(piece: Piece) -> str:
    shown = element("span", _plain(piece.text), class_=piece.kind, title=f"{piece.tokens:,} tokens, {piece.kind}")
    weighs = piece.kind == COUNTS and piece.weight != 1
    return shown + (element("span", f"{piece.weight:g}", class_="weight") if weighs else "")


def _plain(text: str) -> str:
    return escape(printable(text))
