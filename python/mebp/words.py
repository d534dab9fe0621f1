# SPDX-License-Identifier: Apache-2.0
"""Numbers with their nouns, and names with commas between them."""

from collections.abc import Iterable


def counted(number: int, noun: str) -> str:
    """ "1 step", "12,000 steps": the noun takes an s."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def listed(names: Iterable[str], word: str = "or") -> str:
    """ "a, b or c" """
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last
