# SPDX-License-Identifier: Apache-2.0
"""What a terminal and a file get to see of a run."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from mebp.training.log import Record
from mebp.training.progress import BarReporter, LineReporter


def record(step: int) -> Record:
    return Record(step, loss=3.25, grad_norm=1.0, lr=1e-3, tokens=31, seconds=2.0, peak_bytes=1_100_000_000)


@pytest.mark.parametrize(("width", "planned"), [(80, ""), (120, " planned")])
def test_a_bar_fits_its_terminal(width, planned):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=width, color_system=None, legacy_windows=False)
    with BarReporter(console, 12000, 1_200_000_000) as reporter:
        reporter.step(record(11000), seen=2048)
        with reporter.busy("evaluating"):
            reporter.say("a line that stays")
    shown = stream.getvalue()
    assert "a line that stays\n" in shown
    last = [line for line in re.split(r"[\r\n]|\x1b\[[?0-9]*[a-zA-Z]", shown) if "step" in line][-1].rstrip()
    assert last.startswith("step 11000/12000 ") and last.endswith(" left") and len(last) <= width, last
    speed = "  1,024 tokens/s" if width == 120 else ""
    assert f"loss 3.2500  lr 0.001{speed}  1100 of ~1200 MB{planned} " in last


def test_plain_lines_are_few():
    stream = io.StringIO()
    with LineReporter(Console(file=stream, width=200), 500, 1_200_000_000) as reporter:
        for step in range(1, 501):
            reporter.step(record(step), seen=2048)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "step 1/500  loss 3.2500  lr 0.001  1,024 tokens/s  memory 1100 of ~1200 MB planned"
    assert len(lines) == 51 and lines[-1].startswith("step 500/500")


WATCHED = {"reward": "reward", "spread": "reward_std"}


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_what_is_watched_comes_before_the_rest(width):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=width, color_system=None, legacy_windows=False)
    with BarReporter(console, 500, 1_200_000_000, WATCHED) as reporter:
        reporter.step(replace(record(7), metrics={"reward": 0.41666, "reward_std": 0.25}), seen=2048)
    shown = stream.getvalue()
    last = [line for line in re.split(r"[\r\n]|\x1b\[[?0-9]*[a-zA-Z]", shown) if "step" in line][-1].rstrip()
    assert "loss 3.2500  reward 0.417  spread 0.25  lr 0.001" in last or width == 60, last
    assert len(last) <= width and ("tokens/s" in last) == (width == 200)


def test_a_line_has_what_is_watched():
    stream = io.StringIO()
    with LineReporter(Console(file=stream, width=200), 500, 1_200_000_000, WATCHED) as reporter:
        reporter.step(replace(record(1), metrics={"reward": 1.5, "reward_std": 0.25, "entropy": 2.0}), seen=2048)
        reporter.step(replace(record(10), metrics={}), seen=2048)
    first, other = stream.getvalue().splitlines()
    assert first.startswith(
        "step 1/500  loss 3.2500  reward 1.5  spread 0.25  lr 0.001  1,024 tokens/s  memory 1100 of"
    )
    assert other.startswith("step 10/500  loss 3.2500  lr 0.001  1,024 tokens/s")
