# SPDX-License-Identifier: Apache-2.0
"""bench/private_lora_latency.py: the paper's figures by its formula, and what latency makes of them."""

import subprocess
import sys
from pathlib import Path

import pytest
from parts.split_decoding import MODELS, PHONE_ALONE, break_even, by_paper, latency_table, tokens_per_second

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "private_lora_latency.py"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_the_papers_figures(model):
    assert by_paper(model) == pytest.approx(model.published, rel=0.02)
    assert tokens_per_second(model, 0) < by_paper(model)


def test_latency_is_waited_for_at_each_layer():
    model = MODELS[0]
    without = 1 / tokens_per_second(model, 0)
    assert 1 / tokens_per_second(model, 20) == pytest.approx(without + 33 * 0.020)
    assert 1 / tokens_per_second(model, 20, adapted=2) < without + 3 * 0.020
    assert tokens_per_second(model, break_even(model)) == pytest.approx(PHONE_ALONE)


def test_the_command(tmp_path):
    page, picture = tmp_path / "page.md", tmp_path / "picture.png"
    marks = [f"<!-- bench/private_lora_latency.py: {mark} -->\n<!-- end -->" for mark in ("paper", "latency")]
    page.write_text("\n".join(marks))
    command = [sys.executable, SCRIPT, "--markdown", page, "--plot", picture]
    subprocess.run(command, check=True, capture_output=True)
    assert all(row in page.read_text() for row in latency_table())
    assert picture.read_bytes().startswith(b"\x89PNG")
    page.write_text("no marks")
    failed = subprocess.run(command, check=False, capture_output=True, text=True)
    assert failed.returncode == 2 and "has no place for the table" in failed.stderr
