# SPDX-License-Identifier: Apache-2.0
"""bench/compiler.py: what it takes the time and the memory of."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

import compiler
from support.held import HOLD

BENCH = Path(__file__).resolve().parents[2] / "bench"


def refusal(script: str, *arguments: object) -> str:
    done = subprocess.run([sys.executable, BENCH / script, *map(str, arguments)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.splitlines()[-1]


def test_a_cost_is_the_process_s_own(pipe):
    begin = time.perf_counter()
    program = "import time; x = b'1' * 10**8; time.sleep(0.5)" + HOLD
    seconds, megabytes = compiler.cost([sys.executable, "-c", program, str(pipe)]).split(", ")
    assert 0.5 <= float(seconds.removesuffix(" s")) < time.perf_counter() - begin + 0.1  # which it rounds to
    assert 100 <= float(megabytes.removesuffix(" MB")) < 130
    with pytest.raises(RuntimeError, match="^no such luck$"):
        compiler.cost([sys.executable, "-c", "import sys; sys.exit('no such luck')"])


def test_a_page_without_a_place_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("no marks\n")
    assert refusal("compiler.py", "--markdown", page) == (
        f"compiler.py: {page}: has no place for the table; put <!-- bench/compiler.py --> and <!-- end --> where it "
        "shall stand"
    )
