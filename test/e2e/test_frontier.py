# SPDX-License-Identifier: Apache-2.0
"""mebpc --frontier and --memory-budget: what more memory buys, what a plan writes to the disk, and the words for it."""

import json
import math
import random
import re
import subprocess
from bisect import bisect_right

import pytest

import mebp
from mebp.building.budget import free_budget
from mebp.inspect import inspect
from mebp.memory import free_bytes
from mebp.tools import find_tool
from support import models
from support.exports import export
from support.soak import SOAK

TOLERATED = 1.05  # times the fastest plan's seconds, for which nothing is written
SHAPES = {
    "long": ("llama", "--seq-len 256"),
    "wide": ("llama", "--seq-len 64 --batch 4"),
    "qwen3": ("qwen3", "--seq-len 128 --batch 2"),
    "sgd": ("qwen3", "--seq-len 256 --optimizer sgd"),
    "f32": ("llama", "--seq-len 200 --precision f32 --lora-rank 32"),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """ONNX files by the model's type."""
    folder = tmp_path_factory.mktemp("frontier")
    for name in ("llama", "qwen3"):
        export(models.build(name, num_hidden_layers=7), folder / name / "model.onnx", seq_len=256)
    return {name: folder / name / "model.onnx" for name in ("llama", "qwen3")}


@pytest.fixture(params=SHAPES)
def shape(request, exported) -> list[str]:
    return command_of(request.param, exported)


def command_of(shape: str, exported) -> list[str]:
    name, options = SHAPES[shape]
    return [find_tool("mebpc"), str(exported[name]), "--rates", "none", "--threads", "1", *options.split()]


@pytest.fixture
def llama(exported) -> list[str]:
    return command_of("long", exported)


def printed(command: list[str], *options: str) -> list[str]:
    run = subprocess.run([*command, *options], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def plan(command: list[str], tmp_path, *options: str) -> dict:
    printed(command, "--plan-only", "--plan-json", str(tmp_path / "plan.json"), *options)
    return json.loads((tmp_path / "plan.json").read_text())


def frontier(command: list[str], tmp_path, *options: str) -> list[dict]:
    printed(command, "--frontier", "--plan-json", str(tmp_path / "frontier.json"), *options)
    return json.loads((tmp_path / "frontier.json").read_text())["frontier"]


def within(points: list[dict], budget: float) -> dict | None:
    """The one that a budget gets."""
    number = bisect_right([point["peak_bytes"] for point in points], budget)
    return points[number - 1] if number else None


@pytest.mark.parametrize(("name", "most"), [*((name, "checkpoints") for name in SHAPES), ("wide", "all")])
def test_a_larger_budget_never_gets_a_slower_plan(exported, tmp_path, name, most):
    shape = command_of(name, exported)
    points = frontier(shape, tmp_path, "--spill", most)
    low, high = points[0]["peak_bytes"], 1.2 * points[-1]["peak_bytes"]
    generator = random.Random(most)
    budgets = [math.exp(generator.uniform(math.log(low), math.log(high))) for _ in range(1000)]
    fastest = math.inf
    for budget in sorted(budgets):
        seconds = within(points, budget)["seconds"]
        assert seconds <= TOLERATED * fastest, budget
        fastest = min(fastest, seconds)
    for budget in map(int, budgets[: 100 if SOAK else 1]):  # the chooser itself, which takes a process each
        chosen = plan(shape, tmp_path, "--spill", most, "--memory-budget", f"{budget}B")
        assert chosen["peak_bytes"] == within(points, budget)["peak_bytes"], budget
        assert chosen["predicted_seconds"] == pytest.approx(within(points, budget)["seconds"], rel=1e-6), budget


def test_a_disk_is_worn_where_that_is_worth_it(shape, tmp_path):
    points, without = frontier(shape, tmp_path), frontier(shape, tmp_path, "--spill", "none")
    for each in (points, without):
        peaks = [point["peak_bytes"] for point in each]
        assert peaks == sorted(set(peaks))
        assert all((point["file_bytes"] > 0) == (point["spill"] != "none") for point in each)
    seconds = [point["seconds"] for point in without]
    assert seconds == sorted(set(seconds), reverse=True)
    assert {point["spill"] for point in without} == {"none"}
    assert {point["spill"] for point in points} == {"none", "checkpoints"}
    for point in points:
        unspilled = within(without, point["peak_bytes"])
        if point["spill"] == "none":
            assert point == unspilled
        else:
            assert not unspilled or unspilled["seconds"] > TOLERATED * point["seconds"]


def test_a_plan_that_writes_says_what_it_takes_not_to(llama, tmp_path):
    points, without = frontier(llama, tmp_path), frontier(llama, tmp_path, "--spill", "none")
    best = next(point for point in reversed(points) if point["spill"] != "none")
    assert best["peak_bytes"] > without[0]["peak_bytes"], "where both fit"
    for point in (best, points[0]):
        budget = "--memory-budget", f"{point['peak_bytes']}B"
        chosen, lines = plan(llama, tmp_path, *budget), printed(llama, "--plan-only", *budget)
        assert chosen["file_bytes"] == point["file_bytes"] > 0
        size = f"{chosen['file_bytes'] / 1e6:.2f} MB  in each step, and read back"
        assert any(line.strip().startswith("written to disk") and line.endswith(size) for line in lines)
        other = within(without, point["peak_bytes"])
        if other:
            assert plan(llama, tmp_path, *budget, "--spill", "none")["peak_bytes"] == other["peak_bytes"]
            assert (
                f"  the fastest plan that writes nothing (--spill none) takes {other['seconds']:.2f} s a step and "
                f"{other['peak_bytes'] / 1e6:.2f} MB"
            ) in lines
        else:
            least = without[0]["peak_bytes"]
            assert f"  no plan within the budget writes nothing: --spill none needs {least / 1e6:.2f} MB" in lines
        assert chosen["seconds_without_spill"] == pytest.approx(other["seconds"] if other else 0)
        assert chosen["peak_bytes_without_spill"] == (other or without[0])["peak_bytes"]
    asked = plan(llama, tmp_path, "--spill", "checkpoints")
    assert asked["file_bytes"] > 0 and asked["peak_bytes_without_spill"] == 0, "nobody chose"


def test_the_table_adds_up(llama, tmp_path):
    header, *rows, first, second = printed(llama, "--frontier", "--plan-json", str(tmp_path / "frontier.json"))
    found = json.loads((tmp_path / "frontier.json").read_text())
    points = found["frontier"]
    assert header == ("  peak MB + weights MB + Python MB = together MB     s a step  MB to disk  what a step does")
    assert first.startswith("peak is what training allocates") and second.startswith("Python is about what mebp train")
    assert 2 <= len(rows) <= len(points)
    described = {(f"{point['peak_bytes'] / 1e6:.2f}", point["description"]) for point in points}
    for row in rows:
        peak, weights, python, together, _, written, words = row.split(maxsplit=6)
        assert float(together) == pytest.approx(float(peak) + float(weights) + float(python), abs=0.02)
        assert (peak, words) in described
        assert ("to disk" in words) == (float(written) > 0)
    assert rows[0].split()[0] == f"{points[0]['peak_bytes'] / 1e6:.2f}"
    assert rows[-1].split()[0] == f"{points[-1]['peak_bytes'] / 1e6:.2f}"
    usual = plan(llama, tmp_path)
    assert (found["weights_bytes"], found["python_bytes"]) == (usual["weights_bytes"], usual["python_bytes"])
    assert float(weights) == pytest.approx(usual["weights_bytes"] / 1e6, abs=0.01)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "keeps the inputs of all 7 layers, loss for 128 tokens x 2048 vocabulary entries at a time"),
        ("--checkpoint-spacing 3 --chunk-size 64", "64 tokens at a time, keeps the inputs of 4 of 7 layers, loss"),
        ("--checkpoint-spacing 7", "whole sequences, keeps the inputs of all 7 layers, loss"),
        ("--spill checkpoints", "whole sequences, writes the inputs of all 7 layers to disk, loss"),
        ("--spill all", "writes the inputs of all 7 layers, what is trained and the optimizer's state to disk, loss"),
        ("--memory-budget 1GB", " MB of their intermediate values, loss"),
        ("--optimizer mezo", "s a step: whole sequences, loss"),
    ],
)
def test_words_for_a_plan(llama, options, words):
    assert words in printed(llama, "--plan-only", *options.split())[1]


def test_a_plan_says_what_a_process_has_in_all(llama, tmp_path):
    bundle = tmp_path / "model.mebp"
    lines = printed(llama, "-o", str(bundle), "--memory-budget", "7MB")
    rows = {line[2:34].strip(): float(line[34:45]) for line in lines if re.fullmatch(r" {2}.{32} +[\d.]+ MB.*", line)}
    assert rows["together"] == pytest.approx(rows["peak"] + rows["weights"] + rows["Python"], abs=0.02)
    shown = str(mebp.Session(bundle, threads=1, return_gradients=False).plan)
    assert re.search(rf"together +{rows['together']:.2f} .* peak, weights and Python", shown)
    assert inspect(bundle)["python_bytes"] == 46_000_000
    limited = printed(llama, "--plan-only", "--resident-limit", "20KB")
    assert any(re.search(r"together +\d+\.\d+ MB", line) for line in limited)


def test_frontier_keeps_what_is_there(llama, tmp_path):
    """An older one may be written over, and nothing is with a schedule of one's own."""
    assert frontier(llama, tmp_path) == frontier(llama, tmp_path)
    run = subprocess.run([*llama, "--frontier", "--chunk-size", "16"], capture_output=True, text=True)
    assert run.returncode == 2 and "--frontier excludes --chunk-size" in run.stderr


def test_the_budget_may_be_what_is_free(llama, monkeypatch):
    """As mebp train has it."""
    run = subprocess.run([*llama, "--plan-only", "--memory-budget", "auto"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (line,) = run.stderr.splitlines()
    found = re.fullmatch(r"mebpc: note: --memory-budget (\S+): ([\d,]+) MB (are free, .*)", line)
    free = 1e6 * int(found[2].replace(",", ""))
    assert free == pytest.approx(free_bytes(), rel=0.3)
    allowed = set()
    for exact in (free - 5e5, free, free + 5e5):
        monkeypatch.setattr("mebp.building.budget.free_bytes", lambda exact=exact: exact)
        allowed.add((str(free_budget()), free_budget().reason))
    assert (found[1], f"{found[2]} MB {found[3]}") in allowed
