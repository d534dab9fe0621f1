# SPDX-License-Identifier: Apache-2.0
"""Tables that a script writes into a page, between a mark that names the script and an end mark."""

from pathlib import Path

END = "<!-- end -->"


def write_between_marks(page: Path, script: str, lines: list[str]) -> None:
    """Replaces what stands between `<!-- script -->` and the next end mark. Raises ValueError where there are none."""
    begin = f"<!-- {script} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"{page}: has no place for the table; put {begin} and {END} where it shall stand")
    page.write_text("\n".join([f"{before}{begin}", *lines, f"{END}{after}"]), encoding="utf-8")
