# SPDX-License-Identifier: Apache-2.0
"""mebpc --memory-budget: the plan that it chooses, and what it says where there is none."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.extension import load_runtime
from mebp.inspect import inspect
from mebp.objective_traits import objectives
from mebp.tools import find_tool
from mebp.verification.inputs import randomise_adapter
from support import models
from support.exports import export

SEQUENCE = 256
PROTO = Path(__file__).resolve().parents[2] / "format" / "program.proto"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("budget")
    model = models.build("llama", num_hidden_layers=7, hidden_size=192, intermediate_size=512)
    export(model, folder / "model.onnx", seq_len=SEQUENCE)
    return model, folder / "model.onnx"


def plan(exported, tmp_path, *options: str) -> dict:
    path = tmp_path / "plan.json"
    command = [find_tool("mebpc"), str(exported), "--plan-only", "--plan-json", str(path), "--threads", "1", *options]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(path.read_text())


def refusal(exported, *options: str) -> str:
    command = [find_tool("mebpc"), str(exported), "--plan-only", *options]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 2, run
    (line,) = run.stderr.splitlines()
    return line


def smallest_peak(exported, spill: str = "checkpoints") -> float:
    """In MB, as the refusal of a budget that is too small says it."""
    line = refusal(exported, "--memory-budget", "1KB", "--threads", "1", "--spill", spill)
    assert "--seq-len" in line and "--lora-rank" in line and "--optimizer sgd" in line
    return float(line.split("needs at least ")[1].split(" MB")[0])


def test_least_is_feasible_and_nothing_less(exported, tmp_path):
    _, path = exported
    least = smallest_peak(path)
    chosen = plan(path, tmp_path, "--memory-budget", f"{least:.2f}MB")
    assert 0 <= least * 1e6 - chosen["peak_bytes"] < 1e4
    refusal(path, "--memory-budget", f"{least - 0.01:.2f}MB", "--threads", "1")


def test_peak_is_within_every_budget(exported, tmp_path):
    _, path = exported
    free = plan(path, tmp_path)
    seconds = []
    for budget in np.linspace(smallest_peak(path, "none") + 0.01, free["peak_bytes"] / 1e6 + 0.01, 6):
        chosen = plan(path, tmp_path, "--memory-budget", f"{budget:.2f}MB", "--spill", "none")
        assert not chosen["spill_checkpoints"]
        assert chosen["peak_bytes"] <= budget * 1e6 + 1e4
        seconds.append(chosen["predicted_seconds"])
    assert seconds == sorted(seconds, reverse=True)
    assert chosen["spacing"] == 1, "memory that is there should be used"


def test_a_budget_spills_what_it_may(exported, tmp_path):
    _, path = exported
    least = {spill: smallest_peak(path, spill) for spill in ("none", "checkpoints", "all")}
    assert least["none"] > least["checkpoints"] > least["all"]
    written = {}
    for spill, peak in least.items():
        written[spill] = plan(path, tmp_path, "--memory-budget", f"{peak:.2f}MB", "--spill", spill)
        spilled = [what for what in ("checkpoints", "optimizer") if written[spill][f"spill_{what}"]]
        assert spilled == {"none": [], "checkpoints": ["checkpoints"], "all": ["checkpoints", "optimizer"]}[spill]
    free = plan(path, tmp_path)
    layers, checkpoint, adapter = 7, SEQUENCE * 192 * 2, {each["name"]: each["bytes"] for each in free["buffers"]}
    assert written["none"]["file_bytes"] == free["file_bytes"] == 0
    assert written["checkpoints"]["file_bytes"] == layers * checkpoint
    assert written["all"]["file_bytes"] == layers * checkpoint + 3 * adapter["trainables"]


@pytest.mark.parametrize("most, more", [("none", "--spill checkpoints"), ("checkpoints", "--spill all"), ("all", "")])
def test_a_refusal_says_what_spilling_more_would_write(exported, most, more):
    line = refusal(exported[1], "--memory-budget", "1KB", "--spill", most)
    assert f"or {more}, which writes " in line if more else "--spill" not in line


def test_without_a_budget_a_plan_spills_what_it_is_told_to(exported, tmp_path):
    _, path = exported
    peaks = [plan(path, tmp_path, "--spill", spill)["peak_bytes"] for spill in ("none", "checkpoints", "all")]
    assert plan(path, tmp_path)["peak_bytes"] == peaks[0] > peaks[1] > peaks[2]


def test_the_plan_is_what_is_needed_at_one_moment(exported, tmp_path):
    _, path = exported
    for options in ([], ["--chunk-size", "16"], ["--checkpoint-spacing", "3"], ["--spill", "all"]):
        chosen = plan(path, tmp_path, *options)
        assert chosen["live_bytes"] <= chosen["peak_bytes"] <= 1.03 * chosen["live_bytes"]


def test_budget_changes_no_gradient(exported, tmp_path):
    model, path = exported
    ids = models.token_ids(model, 1, 200).numpy()
    gradients, peaks = [], []
    for number, budget in enumerate((None, 8_000_000, 5_000_000)):
        bundle = tmp_path / f"{number}.mebp"
        mebp.compile(path, bundle, precision="f32", memory_budget=budget)
        session = mebp.Session(bundle, threads=1)
        randomise_adapter(session)
        gradients.append(session.loss_and_gradients(ids, ids)[1])
        peaks.append(session.plan["peak_bytes"])
    assert peaks[2] < 5_000_000 < peaks[1] < 8_000_000 < peaks[0]
    free, *bounded = gradients
    for found in bounded:
        for key, expected in free.items():
            assert np.linalg.norm(found[key] - expected) <= 2e-5 * np.linalg.norm(expected), key


@pytest.mark.parametrize(
    "size, message",
    [
        ("64", "has no unit; write 64MiB, 64MB"),
        ("0MiB", "is no memory"),
        ("-5MiB", "is not a size"),
        ("lots", "is not a size"),
        ("64 megs", "has the unit 'megs'"),
        ("1e9B", "has the unit 'e9B'"),
    ],
)
def test_sizes_that_cannot_be_meant(exported, size, message):
    assert message in refusal(exported[1], f"--memory-budget={size}")


def test_more_than_the_machine_has_is_said(exported):
    command = [find_tool("mebpc"), str(exported[1]), "--plan-only", "--memory-budget", "900GiB"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0
    assert "900GiB is more than this machine's" in run.stderr


def test_a_sequence_of_one_is_refused(exported):
    assert refusal(exported[1], "--seq-len", "1").endswith("give at least 2")


def test_a_resident_limit_is_in_the_plan(exported, tmp_path):
    _, path = exported
    for budget in (None, "8MB"):
        mebp.compile(path, tmp_path / "limited.mebp", resident_limit="1MiB", memory_budget=budget)
        mebp.compile(path, tmp_path / "free.mebp", memory_budget=budget)
        limited, free = (mebp.Session(tmp_path / name).plan for name in ("limited.mebp", "free.mebp"))
        assert (limited["resident_limit"], free["resident_limit"]) == (1 << 20, 0)
        assert limited["peak_bytes"] - free["peak_bytes"] == limited["arenas"]["residency"]
    assert "has no unit" in refusal(path, "--resident-limit", "64")


def test_a_budget_chooses_by_itself(exported):
    assert "--chunk-size" in refusal(exported[1], "--memory-budget", "64MiB", "--chunk-size", "32")


@pytest.mark.parametrize("options", ["", "--checkpoint-spacing 3", "--spill all --chunk-size 16"])
def test_a_plan_has_the_format_s_names_everywhere(exported, tmp_path, options):
    bundle, file = tmp_path / "model.mebp", tmp_path / "plan.json"
    command = [find_tool("mebpc"), str(exported[1]), "-o", str(bundle), "--plan-json", str(file), *options.split()]
    subprocess.run(command, check=True, capture_output=True)
    printed, described, shown = json.loads(file.read_text()), inspect(bundle), mebp.Session(bundle).plan
    message = re.search(r"^message Plan {$(.*?)^}$", PROTO.read_text(), re.MULTILINE | re.DOTALL)[1]
    assert sorted(described["plan"]) == sorted(re.findall(r"(\w+) = \d+;", message))
    beside = {name: described[name] for name in ("weights_bytes", "python_bytes")}
    assert printed == {**described["plan"], **beside}
    assert {buffer["name"]: buffer["bytes"] for buffer in printed.pop("buffers")} == shown.pop("arenas")
    chunk_sizes = shown.pop("chunk_sizes")
    assert chunk_sizes == {name: printed[name] for name in ("chunk", "loss_rows", "loss_columns")}
    own = {name: shown[name] for name in ("session_bytes", "planned_peak_bytes")}
    assert {**shown, **chunk_sizes} == {**printed, **own}


def test_other_peaks_are_those_of_the_sessions(exported, tmp_path):
    _, path = exported
    mebp.compile(path, tmp_path / "model.mebp")
    command = [find_tool("mebpc"), str(path), "--plan-only", "--plan-json", str(tmp_path / "plan.json")]
    subprocess.run(command, check=True, capture_output=True)
    peaks = {peak["name"]: peak["bytes"] for peak in json.loads((tmp_path / "plan.json").read_text())["other_peaks"]}
    uses = {
        "gradients applied at once": {"return_gradients": False},
        "clipped or returned": {"return_gradients": True},
        "accumulated": {"return_gradients": False, "accumulate": True},
    }
    for optimizer, takes_losses in load_runtime().optimizers():
        if "galore" in optimizer:
            continue  # takes another bundle
        if takes_losses:
            session = mebp.Session(tmp_path / "model.mebp", optimizer=optimizer)
            assert session.plan["planned_peak_bytes"] == peaks.pop(optimizer)
            continue
        for name, options in uses.items():
            session = mebp.Session(tmp_path / "model.mebp", optimizer=optimizer, **options)
            assert session.plan["planned_peak_bytes"] == peaks.pop(f"{optimizer}, {name}")
    for name, options in uses.items():
        session = mebp.Session(tmp_path / "model.mebp", optimizer="sgd", momentum=0.9, **options)
        assert session.plan["planned_peak_bytes"] == peaks.pop(f"sgd with momentum, {name}")
    assert not peaks


@pytest.mark.parametrize("objective", [name for name, traits in objectives().items() if traits.sums_sequences])
def test_objectives_are_planned(exported, tmp_path, objective):
    """What a step sums, and the text that it writes, is in the peak, and within the budget."""
    _, path = exported
    options = {"objective": objective, "generate_len": 64}
    mebp.compile(path, tmp_path / "model.mebp", **options)
    session = mebp.Session(tmp_path / "model.mebp", accumulate=True, return_gradients=False)
    shared = "trainables", "workspace"
    writing = sum(part["bytes"] for part in session.plan["generation"] if part["name"] not in shared)
    beside = writing if objectives()[objective].writes else 0
    peak = session.plan["peak_bytes"]
    assert peak == session.plan["planned_peak_bytes"] + beside
    assert session.plan["arenas"].get("writing", 0) == beside
    mebp.compile(path, tmp_path / "fits.mebp", **options, memory_budget=peak, spill="none")
    with pytest.raises(mebp.Error, match="--memory-budget"):
        mebp.compile(path, tmp_path / "none.mebp", **options, memory_budget=peak // 4, spill="none")
    fitted = mebp.Session(tmp_path / "fits.mebp", accumulate=True).plan
    assert fitted["peak_bytes"] <= peak


@pytest.mark.parametrize("option", ["accumulate", "clip"])
def test_what_a_step_does_with_gradients_is_planned(exported, tmp_path, option):
    """A plan that fills its budget has room for that, too."""
    _, path = exported
    opened = {"accumulate": {"accumulate": True}, "clip": {"clip": 1.0}}[option]
    mebp.compile(path, tmp_path / "model.mebp", **{option: True})
    session = mebp.Session(tmp_path / "model.mebp", return_gradients=False, **opened)
    assert session.plan["peak_bytes"] == session.plan["planned_peak_bytes"]
    budget = int(1.2 * session.plan["peak_bytes"])
    mebp.compile(path, tmp_path / "fits.mebp", **{option: True}, memory_budget=budget)
    fitted = mebp.Session(tmp_path / "fits.mebp", return_gradients=False, **opened).plan
    assert session.plan["peak_bytes"] < fitted["planned_peak_bytes"] <= budget and fitted["arenas"]["kept"] > 0
    line = refusal(path, f"--{option}", "--optimizer", "mezo")
    assert line == f"mebpc: --{option}: mezo computes no gradients; leave it out"


def test_an_objective_that_an_optimizer_cannot_train_is_refused(exported, tmp_path):
    _, path = exported
    with pytest.raises(mebp.Error) as caught:
        mebp.compile(path, tmp_path / "model.mebp", objective="dpo", optimizer="mezo")
    assert str(caught.value) == (
        "--objective dpo: sums whole gradients, which --optimizer mezo does not have; give another optimizer"
    )


def test_plan_of_shapes_alone_is_the_compiled_one(tmp_path):
    model = models.build("qwen2", num_hidden_layers=3)
    model.config.save_pretrained(tmp_path / "shapes")
    export(model, tmp_path / "whole" / "model.onnx", seq_len=64)
    shapes = [sys.executable, "-m", "mebp", "export", str(tmp_path / "shapes"), "--shape-only", "--seq-len", "64"]
    subprocess.run([*shapes, "-o", str(tmp_path / "shape" / "model.onnx")], check=True, capture_output=True)
    mebp.compile(tmp_path / "whole" / "model.onnx", tmp_path / "model.mebp", memory_budget="3MB")
    compiled = mebp.Session(tmp_path / "model.mebp").plan
    command = [find_tool("mebpc"), str(tmp_path / "shape" / "model.onnx"), "--plan-only", "--memory-budget", "3MB"]
    subprocess.run([*command, "--plan-json", str(tmp_path / "plan.json")], check=True, capture_output=True)
    planned = json.loads((tmp_path / "plan.json").read_text())
    assert planned["peak_bytes"] == compiled["peak_bytes"]
    assert {buffer["name"]: buffer["bytes"] for buffer in planned["buffers"]} == compiled["arenas"]


def longest(exported, budget: str) -> int:
    command = [find_tool("mebpc"), str(exported), "--max-seq-for", budget, "--threads", "1"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return int(run.stdout.split(" tokens train in ")[0])


def test_longest_sequence_is_the_last_that_fits(exported, tmp_path):
    _, path = exported
    tokens = longest(path, "4MB")
    assert tokens > 1
    assert plan(path, tmp_path, "--memory-budget", "4MB", "--seq-len", str(tokens))["peak_bytes"] <= 4e6
    refusal(path, "--memory-budget", "4MB", "--threads", "1", "--seq-len", str(tokens + 1))


def test_longest_sequence_ends_where_the_model_does(exported):
    assert longest(exported[1], "1GiB") == 512
    assert "--lora-rank" in refusal(exported[1], "--max-seq-for", "1MB")
    assert "has no unit" in refusal(exported[1], "--max-seq-for", "1000")
