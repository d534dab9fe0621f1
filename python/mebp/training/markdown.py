# SPDX-License-Identifier: Apache-2.0
"""Names that come from elsewhere, as text of a card: a code span of one line, in which nothing is markup."""

import re


def one_line(text: str) -> str:
    """With escapes for what is no letter of a line, such as line ends, and what turns the direction of text."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def code(text: str) -> str:
    """`text`, between more backticks than it has in a row."""
    text = one_line(text) or " "
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    # One space at each end is not shown, unless there is nothing else.
    padding = " " if text.strip() and (text[0] in "` " or text[-1] in "` ") else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def table(rows: dict[str, str]) -> str:
    """Two columns of markup. A bar would end a cell, in code as well."""
    lines = (f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in rows.items())
    return "\n".join(["| | |", "| --- | --- |", *lines])
