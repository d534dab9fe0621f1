# SPDX-License-Identifier: Apache-2.0
"""Tables of text, for a terminal and for a notebook."""

import html
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A title, and rows under `columns`; a column of numbers is set to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        header = [self.columns] if any(self.columns) else []
        cells = zip(*header, *self.rows, strict=True)  # column by column
        aligned = [_align(column, number) for column, number in zip(cells, self._numbers(), strict=True)]
        lines = ["  ".join(["", *line]).rstrip() for line in zip(*aligned, strict=True)]
        return "\n".join([self.title, *lines])

    def _repr_html_(self) -> str:
        sides = ["right" if number else "left" for number in self._numbers()]
        header = [_html_row("th", self.columns, sides)] if any(self.columns) else []
        rows = [_html_row("td", row, sides) for row in self.rows]
        title = f'<caption style="text-align: left"><b>{html.escape(self.title)}</b></caption>'
        return f"<table>{title}{''.join(header + rows)}</table>"

    def _numbers(self) -> list[bool]:
        columns = zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns)
        return [all(cell[:1].isdigit() or not cell for cell in column) for column in columns]


def megabytes(count: int) -> str:
    """Of 10^6 bytes, without the unit."""
    return f"{count / 1e6:,.2f}"


def _align(column: Sequence[str], number: bool) -> list[str]:
    width = max(map(len, column))
    return [cell.rjust(width) if number else cell.ljust(width) for cell in column]


def _html_row(tag: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    inner = (
        f'<{tag} style="text-align: {side}">{html.escape(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(inner)}</tr>"
