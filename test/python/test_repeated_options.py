# SPDX-License-Identifier: Apache-2.0
"""What takes one value is given once, in every command: else the last one would win in silence."""

import argparse
import subprocess

import pytest

from mebp.cli.main import make_parsers
from mebp.tools import find_tool
from support.commands import refusal_in_process

PARSERS = make_parsers()


@pytest.mark.parametrize("command", PARSERS)
def test_every_option_of_every_command(command, capsys):
    parser = PARSERS[command]
    tried = 0
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction) or not action.option_strings:
            continue
        for name in action.option_strings:
            value = [] if action.nargs == 0 else ["1"]
            given = [command, name, *value, name, *value]
            if isinstance(action, argparse._AppendAction):
                continue
            told = refusal_in_process(capsys, *given)
            assert told == f"mebp: {name} is given twice; see mebp {command} --help\n"
            tried += 1
    assert tried or command in ("models",)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["generate", "a.mebp", "--seed=1", "--seed", "2"], "--seed is given twice"),
        (["train", "m", "--lr=1", "--lr=2"], "--lr is given twice"),
        (["export", "m", "-o", "a", "-ob"], "-o is given twice"),
    ],
)
def test_in_each_way_of_writing_it(capsys, given, expected):
    assert refusal_in_process(capsys, *given).startswith(f"mebp: {expected}; see mebp {given[0]} --help")


def test_what_takes_several_may_come_again(capsys):
    told = refusal_in_process(capsys, "train", "none.mebp", "--data", "a", "--data", "b")
    assert "twice" not in told


@pytest.mark.parametrize("tool", ["mebpc", "mebp-run"])
def test_the_tools_refuse_it_too(tool):
    option = {"mebpc": "--lora-rank", "mebp-run": "--steps"}[tool]
    run = subprocess.run([find_tool(tool), "a", option, "1", option, "2"], capture_output=True, text=True, check=False)
    assert run.returncode == 2 and run.stderr.startswith(f"{tool}: {option}") and run.stderr.count("\n") == 1
