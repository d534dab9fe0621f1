# SPDX-License-Identifier: Apache-2.0
"""Tables that a script writes into a page, between a mark that names the script and an end mark."""

from pathlib import Path

END = "<!-- end -->"


def write_between_marks(page: Path, script: str, lines: list[str]) -> None:
    """Replaces what stands between `<!-- script -->` and the next end mark. Raises ValueError where there are none."""
    before, _, after = _split(page, script)
    page.write_text("\n".join([before, *lines, after]), encoding="utf-8")


def read_between_marks(page: Path, script: str) -> list[str]:
    """The lines that stand there. Raises ValueError as write_between_marks does."""
    return _split(page, script)[1].split("\n")[1:-1]


def find_page(pages: list[Path], script: str) -> Path:
    """The page with `<!-- script -->`; the last one if none has it."""
    return next((page for page in pages if f"<!-- {script} -->" in page.read_text(encoding="utf-8")), pages[-1])


def merge_tables(old: list[str], new: list[str], keys: int, together: int = 0) -> list[str]:
    """`old` with the rows of `new`, each in the place of the row whose first `keys` cells are the same, or at the end.

    Both are Markdown: a header, a rule, rows. Nothing of `old` stays where its header is another one. With `together`,
    no row of `old` stays whose first `together` cells are those of a row of `new`.
    """
    if old[:2] != new[:2]:
        return new
    measured = {tuple(cells(row)[:together]) for row in new[2:]} if together else set()
    kept = [row for row in old[2:] if tuple(cells(row)[:together]) not in measured]
    rows = {tuple(cells(row)[:keys]): row for row in [*kept, *new[2:]]}
    return [*new[:2], *rows.values()]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _split(page: Path, script: str) -> tuple[str, str, str]:
    begin = f"<!-- {script} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    between, closed, after = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"{page}: has no place for the table; put {begin} and {END} where it shall stand")
    return before + begin, between, END + after
