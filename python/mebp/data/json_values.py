# SPDX-License-Identifier: Apache-2.0
"""What no value of JSON in a data file may be, wherever it stands: what Python reads and later cannot write."""

from mebp.errors import Error

_DEEPEST = 100  # lists and objects in one another


def check_value(where: str, value: object) -> None:
    """Raises mebp.Error for lists and objects that are nested too deep, and for texts that are not Unicode."""
    level = [value]
    for _ in range(_DEEPEST):
        below = []
        for each in level:
            for key, inner in each.items() if isinstance(each, dict) else enumerate(each, start=1):
                if isinstance(key, str):
                    _check_text(where, "a key", key)
                if isinstance(inner, str):
                    _check_text(where, f'"{key}"' if isinstance(key, str) else f"entry {key} of a list", inner)
                elif isinstance(inner, dict | list):
                    below.append(inner)
        level = below
        if not level:
            return
    raise Error(f"{where}: is nested more than {_DEEPEST} deep; make it flatter")


def _check_text(where: str, name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Error(f"{where}: {name} holds half of a surrogate pair at character {error.start}; correct it") from error
