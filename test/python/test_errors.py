# SPDX-License-Identifier: Apache-2.0
"""How the errors of others become one line of ours."""

import errno
import json
import os
from importlib import import_module
from pathlib import Path

import pytest

from mebp.cli import main
from mebp.errors import Error, json_trouble, reason, translate_errors


def translated(error: BaseException, *kinds: object) -> str:
    with pytest.raises(Error) as caught, translate_errors("file: cannot be read", "check it", *kinds):
        raise error
    return str(caught.value)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "name"), "No such file or directory"),
        (OSError("the hub is away.\nA page of advice"), "the hub is away"),
        (ValueError(" two\nlines"), "two"),
        (KeyError(), "KeyError"),
    ],
)
def test_a_reason_is_one_line(error, words):
    assert reason(error) == words


def test_only_the_kinds_that_are_named_are_translated():
    assert translated(PermissionError(errno.EACCES, "Permission denied")) == (
        "file: cannot be read (Permission denied); check it"
    )
    assert translated(ValueError("odd"), (ValueError, TypeError)) == "file: cannot be read (odd); check it"
    assert translated(Error("its own line"), Exception) == "its own line"
    with pytest.raises(ValueError), translate_errors("file: cannot be read", "check it"):
        raise ValueError("of no system")


def test_the_command_names_the_file_of_a_system_error(monkeypatch, capsys):
    def fail(path: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    monkeypatch.setattr("mebp.inspect.inspect", fail)
    assert main(["inspect", "a.mebp"]) == 2
    line = f"mebp: {Path('a.mebp')}: No space left on device; check the path and the free space on the disk\n"
    assert capsys.readouterr().err == line


def test_a_package_that_cannot_be_imported_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "half_installed.py").write_text("from math import pie\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("mebp.inspect.inspect", lambda path: import_module("half_installed"))
    assert main(["inspect", "a.mebp"]) == 2
    assert capsys.readouterr().err == (
        "mebp: the package math cannot be used (cannot import name 'pie' from 'math' (unknown location)); "
        "install it anew with pip\n"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a value is missing"),
        ("{1: 2}", "a name in double quotes is missing"),
        ('{"a" 1}', "a colon is missing"),
        ("[1 2]", "a comma is missing"),
        ('"a', "a text has no end"),
        ('"a\nb"', "a text has a line break or another control character"),
        (r'"\q"', "a backslash begins no escape"),
        (r'"\u12"', "a backslash begins no escape"),
        ("1 1", "something follows the value"),
        ("\ufeff1", "it begins with a byte order mark"),
        ("[" * 100_000, "nested too deep"),
        ("9" * 5_000, "a number of thousands of digits"),
        (b'"\xff"', "not UTF-8"),
    ],
)
def test_what_json_finds_wrong_is_said_in_our_words(text, said):
    with pytest.raises((ValueError, RecursionError)) as raised:
        json.loads(text)
    assert json_trouble(raised.value) == said
