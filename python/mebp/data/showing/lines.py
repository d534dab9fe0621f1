# SPDX-License-Identifier: Apache-2.0
"""Samples in colour on a terminal, and elsewhere with marks: {+what counts+} and [-what is cut-]."""

from collections.abc import Iterator

from mebp.data.showing.opening import Opened
from mebp.data.showing.samples import COUNTS, CUT, SEEN, Piece, Sample, Samples
from mebp.words import counted

_CODES = {SEEN: "", COUNTS: "32;1", CUT: "31;9"}  # green and bold; red and struck through
_MARKS = {SEEN: ("", ""), COUNTS: ("{+", "+}"), CUT: ("[-", "-]")}


def facts(samples: Samples, opened: Opened) -> list[str]:
    """What is worth knowing of all samples, a line each."""
    data = samples.data
    what = "row of text" if samples.is_text else "sample"
    many = "rows of text" if samples.is_text and len(samples) != 1 else f"{what}{'s' * (len(samples) != 1)}"
    shares = "; samples share rows" if samples.shares_rows and "share rows" not in opened.reason else ""
    lines = [
        f"{len(samples):,} {many}, {counted(data.tokens, 'token')} in {counted(len(data.rows), 'row')} of up to "
        f"{opened.length:,} ({opened.reason}{shares})",
        f"{counted(data.counted, 'token')} count, {data.counted / data.tokens:.0%}",
    ]
    return [*lines, f"{counted(samples.cut, 'token')} cut off"] if samples.cut else lines


def headline(sample: Sample) -> str:
    """ "sample 3: 80 tokens, 25 count, 16 cut, row 2" """
    parts = [f"sample {sample.number}: {counted(len(sample.ids), 'token')}", f"{sample.counted:,} count"]
    parts += [f"{sample.cut:,} cut"] if sample.cut else []
    return ", ".join([*parts, "left out" if sample.row is None else f"row {sample.row:,}"])


def legend(in_colour: bool) -> list[tuple[str, str]]:
    """Texts with their codes for say_in_colour, as all that follow."""
    named = {SEEN: "seen", COUNTS: "counts in the loss", CUT: "cut"}
    pieces: list[tuple[str, str]] = []
    for kind, name in named.items():
        pieces += [*_shown(Piece(name, kind, 0), in_colour), ("  ", "")]
    return pieces[:-1]


def written(sample: Sample, in_colour: bool) -> Iterator[tuple[str, str]]:
    for piece in sample.pieces:
        yield from _shown(piece, in_colour)


def _shown(piece: Piece, in_colour: bool) -> list[tuple[str, str]]:
    weight = f"*{piece.weight:g}" if piece.kind == COUNTS and piece.weight != 1 else ""
    if in_colour:
        return [(piece.text, _CODES[piece.kind]), *([(weight, "2")] if weight else [])]
    begin, end = _MARKS[piece.kind]
    return [(f"{begin}{piece.text}{end}{weight}", "")]
