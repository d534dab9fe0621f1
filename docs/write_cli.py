# SPDX-License-Identifier: Apache-2.0
"""Writes docs/cli.md from what the commands themselves say: `make docs`, or python docs/write_cli.py.

mebp's parsers are asked directly; mebpc and mebp-run for their --help.
"""

import argparse
import re
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mebp.cli.main import EXIT_STATUSES, make_parsers
from mebp.tools import find_tool

PAGE = Path(__file__).resolve().parent / "cli.md"
_INTRODUCTION = """\
<!-- written by docs/write_cli.py (make docs) from the commands' own help; do not edit -->
# Command line

`mebp` is the Python command, `mebpc` the compiler and `mebp-run` the runtime alone. An error is one line on standard
error that says what is wrong and what to do. `mebp train --help` shows what one needs to train on text, and `mebp train
--help-all` every option.
"""


@dataclass(frozen=True)
class Option:
    """`name` is what one types, values included."""

    name: str
    help: str
    required: bool = False

    def in_synopsis(self) -> str:
        typed = self.name.split(", ")[0]
        return typed if self.required else f"[{typed}]"


@dataclass(frozen=True)
class Command:
    name: str
    purpose: str
    options: list[Option]  # positional ones first


def page() -> str:
    commands = [
        *(_from_argparse(parser) for parser in make_parsers().values()),
        *(_from_help(tool) for tool in ("mebpc", "mebp-run")),
    ]
    statuses = _table(["exit status", "means"], [[str(status), text] for status, text in EXIT_STATUSES.items()])
    return "\n".join([_INTRODUCTION, statuses, *map(_section, commands)])


def _section(command: Command) -> str:
    parts = [option.in_synopsis() for option in sorted(command.options, key=lambda option: not option.required)]
    # A value stays on the line of its option.
    words = " ".join(part.replace(" ", "\0") for part in [command.name, *parts])
    synopsis = textwrap.fill(
        words, 100, subsequent_indent=" " * (len(command.name) + 1), break_long_words=False, break_on_hyphens=False
    ).replace("\0", " ")
    rows = [[f"`{option.name}`", option.help] for option in command.options if option.help]
    return f"## {command.name}\n\n{command.purpose}\n\n```\n{synopsis}\n```\n\n{_table(['option', 'means'], rows)}"


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _from_argparse(parser: argparse.ArgumentParser) -> Command:
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS and action.dest != "help"]
    options = [_option(action) for action in sorted(actions, key=lambda action: bool(action.option_strings))]
    return Command(parser.prog, parser.description or "", options)


def _option(action: argparse.Action) -> Option:
    value = action.metavar or "|".join(map(str, action.choices or [])) or action.dest.upper()
    if not action.option_strings:
        return Option(str(value), action.help or "", action.nargs not in ("?", "*"))
    names = action.option_strings if action.nargs == 0 else [f"{name} {value}" for name in action.option_strings]
    return Option(", ".join(names), action.help or "", action.required)


def _from_help(tool: str) -> Command:
    text = subprocess.run([find_tool(tool), "--help"], capture_output=True, text=True, check=True).stdout
    entries = [entry for entry in map(_parse_entry, _entries(text)) if not entry.name.startswith("-h")]
    return Command(tool, text.splitlines()[0], entries)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Name and help of each option, as CLI11 prints them: in two columns, and after a long name on the next line."""
    column = 30
    lines = [line for line in text.splitlines() if line.startswith("  ")]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if following.startswith(" " * column):
            yield line.strip(), following.strip()
        elif not line.startswith(" " * column):
            yield line[:column].strip(), line[column:].strip()


def _parse_entry(entry: tuple[str, str]) -> Option:
    """CLI11's "-o,--output TEXT:{a,b}=a REQUIRED" and its help."""
    left, help = entry
    names, _, rest = left.removesuffix(" ...").partition(" ")
    required = rest.endswith("REQUIRED")
    rest = re.sub(r" ?(REQUIRED|(Needs|Excludes): .*)$", "", rest)
    kind, _, default = rest.partition("=")
    kind, _, check = kind.partition(":")
    if check.startswith("{"):
        kind = check.strip("{}").replace(",", "|")
    limits = re.fullmatch(r"\w+ in \[(\S+) - (\S+)\]", check)
    notes = [f"from {limits[1]} to {limits[2]}"] if limits else []
    notes += [f"default: {default.strip('[]')}"] if default else []
    if notes:  # in the parentheses that are there, or in new ones
        help = (
            f"{help.removesuffix(')')}; {', '.join(notes)})" if help.endswith(")") else f"{help} ({', '.join(notes)})"
        )
    if not names.startswith("-"):
        return Option(names.upper(), help, required)
    return Option(", ".join(f"{name} {kind}".strip() for name in names.split(",")), help, required)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
