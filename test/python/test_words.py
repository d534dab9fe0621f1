# SPDX-License-Identifier: Apache-2.0
"""What is said of others' text, which may hold sequences that a terminal obeys."""

import ast
import sys
from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.words import answer, printable, say

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "mebp"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("over\rwritten", r"over\rwritten"),
        ("\x9b31m\x7f\x00", r"\x9b31m\x7f\x00"),
        ("a\u202eb", r"a\u202eb"),
        ("\udc80", r"\udc80"),
        ("two\nlines\tand é, 日本, \U0001f468\u200d\U0001f469", "two\nlines\tand é, 日本, \U0001f468\u200d\U0001f469"),
    ],
)
def test_control_characters_are_shown_as_escapes(text, shown, capsys):
    assert printable(text) == shown
    say(text, error=True)
    assert capsys.readouterr().err == f"{shown}\n"


def test_an_answer_goes_into_a_file_as_it_is(capsys, monkeypatch):
    answer("a\x1b[31m")
    assert capsys.readouterr().out == "a\x1b[31m\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    answer("a\x1b[31m", end="")
    assert capsys.readouterr().out == r"a\x1b[31m"


def test_an_error_shows_them_so():
    assert str(Error("file: has the key '\x1b[31m'\n\x9b")) == r"file: has the key '\x1b[31m' \x9b"


def test_the_package_prints_by_say_alone():
    found = [f"{path.relative_to(PACKAGE)}:{node.lineno}" for path in sorted(PACKAGE.rglob("*.py"))
             for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"]  # fmt: skip
    assert {each.split(":")[0] for each in found} == {"words.py"}, found
