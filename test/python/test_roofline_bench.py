# SPDX-License-Identifier: Apache-2.0
"""What bench/roofline.py makes of a profile."""

import json
import sys

import pytest
import roofline
from parts.pages import read_between_marks
from parts.roofline.calls import sum_up, tasks_by_kernel
from parts.roofline.limits import Limits, choose
from parts.roofline.report import gaps, kernels_table, tasks_table

LIMITS = Limits("bf16 dots", flops=1e9, f32_flops=5e8, bytes=1e8)
STEP = {
    "machine": "a CPU, its kernels",
    "model": "a model",
    "tokens": 256,
    "budget": None,
    "threads": 2,
    "seconds": 0.05,
    "limits": vars(LIMITS),
}


def call(name: str, milliseconds: float, flops: float, moved: float, threads=((1, 1.0, 0.0),), rounds: int = 1) -> dict:
    shares = [dict(zip(("tasks", "busy_us", "waiting_us"), thread, strict=True)) for thread in threads]
    args = {"flops": flops, "bytes": moved, "rounds": rounds, "threads": shares}
    return {"name": name, "dur": milliseconds * 1e3, "args": args}


def step(*calls: dict) -> dict:
    return STEP | {"kernels": {name: vars(kernel) for name, kernel in sum_up(calls, LIMITS).items()}}


def test_a_gap_is_what_a_call_takes_beyond_the_slower_limit():
    found = sum_up(
        [
            call("linear", 10, flops=6e6, moved=1e5),  # 6 ms of arithmetic, 1 ms of memory
            call("linear", 10, flops=1e6, moved=3e5),  # 1 and 3
            call("add", 1, flops=1e3, moved=1e6),  # 10 ms of memory, but its operands were in a cache
        ],
        LIMITS,
    )
    assert list(found) == ["linear", "add"]
    assert found["linear"].calls == 2
    assert found["linear"].seconds == pytest.approx(0.02)
    assert found["linear"].gap == pytest.approx(0.02 - 0.009)
    assert found["add"].gap == 0


def test_waiting_is_a_part_of_all_threads_time():
    found = sum_up([call("add", 1, 1, 1, [(3, 900, 100), (1, 300, 700)])], LIMITS)
    assert found["add"].waiting == pytest.approx(800 / 2000)


def test_the_peak_is_that_of_the_familys_arithmetic():
    peaks = {"f32 FMA": {"2": 10.0}, "bf16 dots": {"2": 20.0}, "bf16 tiles": {"2": 90.0}}
    rates = {"read": {"2": 3.0}, "copy": {"2": 4.0}}
    found = {kernels: choose(peaks, rates, kernels, 2) for kernels in ("avx2", "avx512", "avx512_bf16", "amx_bf16")}
    assert [each.flops for each in found.values()] == [10, 10, 20, 90]
    assert all(each.f32_flops == 10 and each.bytes == 4 for each in found.values())
    with pytest.raises(RuntimeError, match="^peak: has no 'bf16 tiles' for amx_bf16 kernels; set MEBP_KERNELS to a"):
        choose({"f32 FMA": {"2": 10.0}}, rates, "amx_bf16", 2)


def test_shares_of_a_step_sum_up_to_it():
    table = kernels_table(step(call("linear", 30, 6e6, 1e5), call("add", 10, 1e3, 1e6), call("fill", 0.01, 0, 8)))
    shares = [float(row.split("|")[7].strip(" %")) for row in table[2:]]
    assert [row.split("|")[5].strip() for row in table[2:]] == ["`linear`", "`add`", "everything else"]
    assert sum(shares) == pytest.approx(100, abs=0.2)


def test_the_three_largest_gaps_are_named():
    calls = [call(name, milliseconds, 1e6, 8) for name, milliseconds in (("a", 3), ("b", 9), ("c", 2), ("d", 5))]
    assert gaps(step(*calls)).endswith("these limits: b 8 ms (16%), d 4 ms (8%), a 2 ms (4%).")


def test_work_with_too_few_tasks_is_told():
    calls = [
        call("linear", 1, 300, 1, [(9, 1, 1), (7, 1, 1)]),
        call("linear", 1, 100, 1, [(8, 1, 1), (22, 1, 1)], rounds=2),
        call("add", 1, 0, 5, [(3, 1, 1), (0, 1, 1)]),
    ]
    found = tasks_by_kernel(calls, 8)
    assert (found["linear"].least, found["linear"].most, found["linear"].short) == (15, 16, 0.25)
    assert (found["add"].least, found["add"].most, found["add"].short) == (3, 3, 1)
    results = {"kernels": "avx2", "model": "m", "tokens": 9, "tasks": {"8": {n: vars(t) for n, t in found.items()}}}
    assert tasks_table(results)[2:] == [
        "| avx2 | m | 9 | `add` | 3 | 100% |",
        "| avx2 | m | 9 | `linear` | 15 to 16 | 25% |",
    ]


def run(monkeypatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["roofline.py", *map(str, arguments)])
    roofline.main()


def test_a_file_makes_the_table_and_the_picture(tmp_path, monkeypatch, capsys):
    page, file, picture = tmp_path / "page.md", tmp_path / "step.json", tmp_path / "roofline.png"
    page.write_text(f"<!-- {roofline.STEP} -->\n<!-- end -->\n")
    calls = [call("linear", 30, 6e6, 1e5), call("linear_again", 29, 6e6, 1e5), call("add", 1, 1e3, 1e6)]
    for budget in (None, 300.0, 300.0):
        file.write_text(json.dumps(step(*calls) | {"budget": budget, "seconds": 0.07}))
        run(monkeypatch, "--from", file, "--markdown", page, "--plot", picture)
    rows = read_between_marks(page, roofline.STEP)[2:]
    assert [row.split("|")[4].strip() for row in rows] == ["no budget"] * 4 + ["300 MB"] * 4
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "The largest gaps to these limits: " in capsys.readouterr().out


def test_the_command_refuses_in_one_line(tmp_path, monkeypatch, capsys):
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps({"kernels": "avx2", "model": "m", "tokens": 9, "tasks": {}}))
    (tmp_path / "page.md").write_text("")
    for arguments, line in (
        (["--from", file, "--plot", "p.png"], f"{file}: has tasks, of which there is no picture; leave out --plot"),
        (
            ["--markdown", tmp_path / "page.md"],
            f"{tmp_path}/page.md: has no place for the table; put <!-- {roofline.STEP} --> and <!-- end --> where it "
            "shall stand",
        ),
        (["--tasks", "0"], "--tasks 0: is not a number of threads; give at least 1"),
        (["--tasks", "8", "--plot", "p.png"], "--tasks: has no picture; leave out --plot"),
        (["--steps", "0"], "--steps 0: is not a number of steps; give at least 1"),
        (["--tokens", "1"], "--tokens 1: a token is learned from those before it; give at least 2"),
    ):
        with pytest.raises(SystemExit) as end:
            run(monkeypatch, *arguments)
        assert end.value.code == 2
        assert capsys.readouterr().err.endswith(f"{line}\n")
