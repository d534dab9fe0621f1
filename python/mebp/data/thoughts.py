# SPDX-License-Identifier: Apache-2.0
"""What templates write for a model to think in."""

import re

_TAG = r"[<\[◁][|/]{0,2}[\w:]{0,20}(?:think|thought|reason)[\w:]{0,20}\|?[>\]▷]"
_OPENED = re.compile(rf"(?:{_TAG}\s{{0,9}}){{1,2}}\Z", re.IGNORECASE)

# A thought without a word, with the line breaks around it: a model that is to answer at once gets it in its prompt.
EMPTY_THOUGHT = re.compile(rf"\s{{0,9}}{_TAG}\s{{0,9}}{_TAG}\s{{0,9}}", re.IGNORECASE)


def opened_thought(prompt: str) -> str:
    """The thought that a generation prompt opens, or opens and closes, at its end; empty where it does not."""
    found = _OPENED.search(prompt)
    return found[0] if found else ""
