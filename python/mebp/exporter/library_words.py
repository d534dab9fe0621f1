# SPDX-License-Identifier: Apache-2.0
"""What torch, transformers and the hub say to people, told from what Python says of their code."""

import dis

from mebp.errors import reason

_LONGEST = 160
_ABOUT_CODE = (AttributeError, TypeError, AssertionError)  # whoever raises them


def sentence(error: BaseException) -> str | None:
    """What the system says, or what a library's code raises itself; None for Python's own words, such as "'int' object
    has no attribute 'items'", which name nothing that a user knows."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, _ABOUT_CODE) or not _is_raised(error) or not str(error).strip():
        return None
    said = str(error.args[0]) if isinstance(error, KeyError) and error.args else reason(error)
    # A single word is the key that a table does not have.
    if " " not in said:
        return None
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."


def explained(error: BaseException) -> str:
    """The sentence in parentheses, with a space before it, or nothing."""
    said = sentence(error)
    return f" ({said})" if said else ""


def _is_raised(error: BaseException) -> bool:
    """Whether a raise statement made it, and neither the interpreter nor a function in C."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and dis.opname[place.tb_frame.f_code.co_code[place.tb_lasti]] == "RAISE_VARARGS"
