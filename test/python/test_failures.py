# SPDX-License-Identifier: Apache-2.0
"""What a run of tests tells of a failure before it ends."""

import os
import subprocess
import sys
from pathlib import Path

import support.failures

FIRST_FAILS = """
import pytest

@pytest.fixture
def lost():
    raise ValueError("no file\\nat all")

def test_fails():
    assert 1 == 2

def test_has_no_fixture(lost):
    pass

def test_is_later():
    print("later")
"""


def tell(folder: Path, source: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]")
    (folder / "test_first.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-s", "-p", "support.failures", "-p", "no:cacheprovider", "."]
    environment = os.environ | {"PYTHONPATH": str(Path(support.failures.__file__).parents[1])}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout


def test_a_failure_is_told_before_the_next_test(tmp_path):
    now, _ = tell(tmp_path, FIRST_FAILS).split("later")
    assert "\nfailed in call: test_first.py::test_fails: assert 1 == 2\n" in now
    assert "\nfailed in setup: test_first.py::test_has_no_fixture: ValueError: no file\n" in now


def test_a_file_that_is_not_read_is_told(tmp_path):
    assert "\nnot collected: test_first.py: " in tell(tmp_path, "import nothing_of_this_name").split("= ERRORS =")[0]
