# SPDX-License-Identifier: Apache-2.0
"""What earlier builds wrote trains, resumes and loads to the same bits, with the reference kernels."""

import json
import struct
from pathlib import Path

import pytest

from support.golden import ARCHIVES, FORMAT, ROOT, STEPS, run_module
from support.golden_cases import CASES


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, dict]:
    """What this build makes of each, by its name: in one process, since a family of kernels is a process's."""
    file = tmp_path_factory.mktemp("golden") / "found.json"
    run_module("support.golden", file, *ARCHIVES)
    return json.loads(file.read_text())


@pytest.mark.parametrize("archive", ARCHIVES, ids=[f"{path.parent.name} {path.name}" for path in ARCHIVES])
def test_bits(found, archive):
    mine = found[str(archive)]
    assert "error" not in mine, mine["error"]
    expected = mine["expected"]
    assert mine["run"] == expected
    assert mine["resumed"] == {**expected, "losses": expected["losses"][STEPS:]}


def test_each_kind_is_there():
    """Of this build's version: a case that is added is written, too."""
    assert {path.name.removesuffix(".tar.xz") for path in (ROOT / FORMAT).iterdir()} == set(CASES)
    assert sum(path.stat().st_size for path in (ROOT / FORMAT).iterdir()) < 2_000_000


def test_the_version_is_what_mebpc_writes(bundle):
    """A new one needs a folder of its own."""
    header = (Path(bundle) / "program.pb").read_bytes()[:8]
    assert "{}.{}".format(*struct.unpack("<4sHH", header)[1:]) == FORMAT
