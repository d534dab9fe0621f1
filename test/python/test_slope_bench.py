# SPDX-License-Identifier: Apache-2.0
"""bench/slope.py: the slope comes from the table of peaks, beside its bound."""

import subprocess
import sys
from pathlib import Path

import pytest
from parts.shapes import SHAPES
from parts.slope_report import draw, peaks_table, read_peaks, slope, slopes_table, token_bytes

import mebp
from mebp.tools import run_tool

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "slope.py"
# 20 MB and 3,000 bytes a token planned, 2,900 measured, the longest not measured.
PEAKS = peaks_table(
    [
        ("Qwen2.5-0.5B", 512, 21_536_000, 21_484_800),
        ("Qwen2.5-0.5B", 2048, 26_144_000, 25_939_200),
        ("Qwen2.5-0.5B", 1024, 23_072_000, 22_969_600),
        ("Qwen2.5-0.5B", 4096, 32_288_000, None),
        ("Qwen2.5-3B", 512, 80_000_000, None),
    ]
)


def test_a_slope_is_by_least_squares():
    assert slope([(1, 10.0), (2, 12.0), (4, 16.0)]) == pytest.approx(2)
    assert slope([(0, 0.0), (1, 3.0), (2, 0.0)]) == pytest.approx(0)
    assert slope([(512, 10.0)]) is None


def test_the_bound_is_the_published_one():
    assert [token_bytes(name) for name in SHAPES] == [3440, 6240, 7296]


def test_the_table_of_peaks_is_all_that_slopes_need():
    planned, measured = read_peaks(PEAKS)["Qwen2.5-0.5B"]
    assert planned == [(512, 21_540_000), (1024, 23_070_000), (2048, 26_140_000), (4096, 32_290_000)]
    assert [length for length, _ in measured] == [512, 1024, 2048]
    first, second = slopes_table(PEAKS)[2:]
    name, least, bound, planned, measured = (cell.strip() for cell in first.strip("|").split("|"))
    assert (name, least, bound) == ("Qwen2.5-0.5B", "3,440", "3,956")
    assert float(planned.replace(",", "")) == pytest.approx(3000, rel=0.002)
    assert float(measured.replace(",", "")) == pytest.approx(2900, rel=0.002)
    assert second == "| Qwen2.5-3B | 7,296 | 8,390 |  |  |"


def test_the_picture_has_what_was_measured(tmp_path):
    draw(PEAKS, tmp_path / "with.png")
    draw([row.replace("| 22.97 |", "| |") for row in PEAKS], tmp_path / "without.png")
    assert (tmp_path / "with.png").read_bytes() != (tmp_path / "without.png").read_bytes()


def test_a_tool_that_fails_says_why():
    assert run_tool([sys.executable, "-c", "print(5)"]) == "5\n"
    with pytest.raises(mebp.Error, match="^no such luck$"):
        run_tool([sys.executable, "-c", "import sys; sys.exit('first\\nno such luck')"])
    with pytest.raises(mebp.Error, match="ended with status 3$"):
        run_tool([sys.executable, "-c", "raise SystemExit(3)"])


def test_the_command_refuses_in_one_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("no marks\n")
    done = subprocess.run([sys.executable, str(SCRIPT), "--markdown", str(page)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"slope.py: {page}: has no place for the table; put <!-- bench/slope.py: peaks --> and <!-- end --> where it "
        "shall stand\n"
    )
