# SPDX-License-Identifier: Apache-2.0
"""What a terminal and a file get to see of a run."""

import io
import re

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
    assert f"loss 3.2500  1,024 tokens/s  1100 of ~1200 MB{planned} " in last


def test_plain_lines_are_few():
    stream = io.StringIO()
    with LineReporter(Console(file=stream, width=200), 500, 1_200_000_000) as reporter:
        for step in range(1, 501):
            reporter.step(record(step), seen=2048)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "step 1/500  loss 3.2500  1,024 tokens/s  memory 1100 of ~1200 MB planned"
    assert len(lines) == 51 and lines[-1].startswith("step 500/500")
