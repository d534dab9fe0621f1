# SPDX-License-Identifier: Apache-2.0
"""Numbers with their nouns."""


def counted(number: int, noun: str) -> str:
    """ "1 step", "12,000 steps": the noun takes an s."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
