# SPDX-License-Identifier: Apache-2.0
"""Values of JSON that are to be of a type."""

import json
from collections.abc import Mapping

from mebp.errors import Error


def read_string(where: str, entry: Mapping[str, object], key: str) -> str:
    """The text in entry[key]; raises mebp.Error for anything else there."""
    value = entry[key]
    if not isinstance(value, str):
        raise Error(f'{where}: "{key}" is {kind(value)}; give a string')
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Error(
            f'{where}: "{key}" holds half of a surrogate pair at character {error.start}; correct it'
        ) from error
    return value


def parse_json(where: str, entry: Mapping[str, object], key: str) -> object:
    """What is in entry[key], or what its JSON says where it is a text; raises mebp.Error where that is not JSON."""
    value = entry[key]
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise Error(f'{where}: "{key}" is a text that is not JSON; give the value itself') from error


def kind(value: object) -> str:
    """What a value of JSON is, in words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
