# SPDX-License-Identifier: Apache-2.0
"""What is said of an option that several commands have (format/options.h), for Python's command lines."""

import argparse
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from mebp.extension import load_runtime


class SharedOption(NamedTuple):
    value: str  # what the command line calls it; empty for one that is on or off
    help: str  # with its default
    default: str = ""  # as text; empty where the help says it, or nothing does


@cache
def shared_options() -> dict[str, SharedOption]:
    """By name, without dashes before it. Raises mebp.Error where the extension is not built."""
    return {
        name: SharedOption(value, f"{text} (default: {standard})" if standard else text, standard)
        for name, value, text, standard in load_runtime().options()
    }


def add_shared(add: Callable[..., argparse.Action], name: str, **how: object) -> argparse.Action:
    """`add` is a parser's or a group's add_argument; `how` is what argparse takes beside, such as a type."""
    option = shared_options()[name]
    how |= {"metavar": option.value} if option.value else {"action": "store_true"}
    return add(f"--{name}", **how, help=option.help)
