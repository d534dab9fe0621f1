# SPDX-License-Identifier: Apache-2.0
"""A few templates of the grammar; scripts/soak.sh templates tries 10,000."""

import subprocess
import sys
from pathlib import Path

FUZZER = Path(__file__).resolve().parents[1] / "fuzz" / "templates.py"


def test_templates_of_a_grammar_hold_the_limits() -> None:
    # A process of its own: torch's memory would be counted as that of the processes that are started.
    run = subprocess.run([sys.executable, FUZZER, "--count", "48"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.splitlines()[-1].endswith("; 0 findings")
