# SPDX-License-Identifier: Apache-2.0
"""Packages that only some commands need: which versions are refused, and which are named."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

import mebp
from mebp.extras import RANGES, need_packages
from mebp.models import tried_models
from support.commands import refusal_in_process
from support.versions import pretend

ROOT = Path(__file__).resolve().parents[2]


def test_the_extras_have_the_same_ranges() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    given = {}
    for extra in project["optional-dependencies"].values():
        for each in extra:
            if found := re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(?:,<([\d.]+))?", each):
                given.setdefault(found[1].replace("-", "_"), set()).add((found[2], found[3]))
    del given["onnx"]  # which onnx_ir and onnxscript import
    assert given == {package: {(each.first, _following(each.last))} for package, each in RANGES.items()}


def _following(last: str | None) -> str | None:
    """2.14 of 2.13: a range ends before it."""
    return last and re.sub(r"\d+$", lambda found: str(int(found[0]) + 1), last)


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_what_the_tests_use_is_the_newest(package: str) -> None:
    requirements = (ROOT / "scripts" / "requirements.txt").read_text()
    (pinned,) = re.findall(rf"^{package}==(.*)$", requirements, re.MULTILINE)
    assert pinned.startswith(f"{RANGES[package].last}.")
    if package == "transformers":
        assert pinned == tried_models().transformers


def test_an_older_one_is_refused_before_anything_is_exported(tmp_path: Path, monkeypatch, capsys) -> None:
    pretend(monkeypatch, torch="2.8.0")
    line = "export needs torch 2.9.1 to 2.13 (2.8.0 is installed); install it with: pip install 'mebp[export]'"
    output = tmp_path / "out" / "model.onnx"
    assert refusal_in_process(capsys, "export", tmp_path / "model", "-o", output) == f"mebp: {line}\n"
    pretend(monkeypatch, transformers="4.57.6")
    with pytest.raises(mebp.Error) as caught:
        mebp.export(tmp_path / "model", output)
    assert str(caught.value) == (
        "export needs transformers 5.8 to 5.18 (4.57.6 is installed); install it with: pip install 'mebp[export]'"
    )
    assert not output.parent.exists()


@pytest.mark.parametrize(("package", "found"), [("torch", "2.9.0+cpu"), ("peft", "0.18.1"), ("transformers", "5.7")])
def test_each_lower_end_holds(monkeypatch, package: str, found: str) -> None:
    pretend(monkeypatch, **{package: found})
    with pytest.raises(mebp.Error) as caught:
        need_packages("verify", "verify", package)
    assert str(caught.value) == (
        f"verify needs {package} {RANGES[package]} ({found} is installed); install it with: pip install 'mebp[verify]'"
    )


def test_a_newer_one_is_named_once(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "transformers", sys)  # nothing is imported
    pretend(monkeypatch, transformers="5.24.0")
    need_packages("export", "export", "transformers")
    need_packages("export", "export", "transformers")
    assert capsys.readouterr().err == (
        "warning: mebp is tried with transformers 5.8 to 5.18, not with 5.24.0; if it fails, install it with: pip "
        "install 'mebp[export]'\n"
    )


@pytest.mark.parametrize(
    ("package", "found"),
    [
        ("torch", "2.9.1+cu128"),
        ("torch", "2.13.2"),
        ("transformers", "5.8.0.dev0"),
        ("transformers", "5.18"),
        ("transformers", "of-nobody"),
        ("onnxscript", "9.9"),
    ],
)
def test_what_is_tried_is_not_named(monkeypatch, capsys, package: str, found: str) -> None:
    monkeypatch.setitem(sys.modules, package, sys)
    pretend(monkeypatch, **{package: found})
    need_packages("export", "export", package)
    assert capsys.readouterr().err == ""


def test_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(mebp.Error, match=r"^verify needs peft \(.*\); install it with: pip install 'mebp\[verify\]'$"):
        need_packages("verify", "verify", "peft")
