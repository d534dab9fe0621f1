# SPDX-License-Identifier: Apache-2.0
"""CMakeLists.txt alone says which version this is."""

import re
import subprocess
import tomllib
from pathlib import Path

import mebp
from mebp.cli import main

_ROOT = Path(__file__).resolve().parents[2]


def version() -> str:
    return re.search(r"project\(mebp VERSION (\S+)", (_ROOT / "CMakeLists.txt").read_text())[1]


def test_the_package_has_it():
    assert mebp.__version__ == version()


def test_the_command_prints_it(capsys):
    try:
        main(["--version"])
    except SystemExit as end:
        assert end.code == 0
    assert capsys.readouterr().out == f"mebp {version()}\n"


def test_the_wheel_reads_it_there():
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    assert "version" not in settings["project"]
    provider = settings["tool"]["scikit-build"]["metadata"]["version"]
    assert re.search(provider["regex"], (_ROOT / provider["input"]).read_text())["value"] == version()


def test_the_changelog_begins_with_what_is_not_released():
    headings = re.findall(r"^## (.+)$", (_ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1].split()[0] == version()


def test_the_extension_exports_nothing_but_what_python_looks_for():
    from mebp import _runtime

    listed = subprocess.run(
        ["nm", "-D", "--defined-only", _runtime.__file__], capture_output=True, text=True, check=True
    ).stdout
    assert [line.split()[-1] for line in listed.splitlines()] == ["PyInit__runtime"]
