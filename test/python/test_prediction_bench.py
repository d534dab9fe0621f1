# SPDX-License-Identifier: Apache-2.0
"""bench/prediction.py: what it compiles, and the figure that it ends with."""

import subprocess
import sys
from pathlib import Path

import prediction

SCRIPT = Path(prediction.__file__)


def test_ends_with_the_ratio_that_is_farthest_from_one():
    row = "| A CPU | SmolLM2-135M | 256 | whole | f32 | {} | 1.000 | 1.000 | {} |"
    table = [*prediction.HEADER, *(row.format(threads, ratio) for threads, ratio in ((1, "1.05"), (2, "0.88")))]
    assert prediction.worst(table) == "2 plans, farthest from the median: 0.88"
    assert prediction.worst([*table, row.format(4, "1.13")]) == "3 plans, farthest from the median: 1.13"


def test_small_plans_cut_the_sequence():
    case = prediction.Case("Qwen2.5-0.5B", 1024, "small", "bf16")
    assert case.options()[:4] == ["--seq-len", "1024", "--chunk-size", "64"]
    assert case.options()[-4:] == ["--optimizer", "sgd", "--precision", "bf16"]


def test_refuses_a_page_without_a_place_for_the_table(tmp_path):
    page, rates = tmp_path / "page.md", tmp_path / "rates.json"
    page.write_text("Nothing.")
    rates.touch()
    command = [sys.executable, SCRIPT, "--markdown", page, "--rates", rates]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2 and run.stderr.startswith(f"prediction.py: {page}: has no place for the table"), run
