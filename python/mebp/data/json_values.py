# SPDX-License-Identifier: Apache-2.0
"""Values of JSON: of one type, and none that Python reads and later cannot write."""

import json
from collections.abc import Mapping

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


def read_string(where: str, entry: Mapping[str, object], key: str) -> str:
    """The text in entry[key]; raises mebp.Error for anything else there."""
    value = entry[key]
    if not isinstance(value, str):
        raise Error(f'{where}: "{key}" is {kind(value)}; give a string')
    return value


def parse_json(where: str, entry: Mapping[str, object], key: str) -> object:
    """What is in entry[key], or what its JSON says where it is a text; raises mebp.Error where that is not JSON."""
    value = entry[key]
    if not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise Error(f'{where}: "{key}" is a text that is not JSON; give the value itself') from error
    check_value(f'{where}: "{key}"', [parsed])
    return parsed


def kind(value: object) -> str:
    """What a value of JSON is, in words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "no text")
