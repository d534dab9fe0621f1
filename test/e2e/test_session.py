# SPDX-License-Identifier: Apache-2.0
"""What a session shows in a notebook, and that Ctrl-C leaves it whole."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.cli import main
from mebp.inspect import inspect
from mebp.plan import Plan
from mebp.tools import find_tool
from support import models
from support.commands import TIMEOUT

IDS = np.arange(60, 92)[None]


def plan_as_compiled(bundle: Path) -> Plan:
    """Of a session that needs just what was planned."""
    threads = mebp.Session(bundle).plan["threads"]
    return mebp.Session(bundle, threads=threads, return_gradients=False).plan


def test_a_printed_plan_adds_up(bundle):
    plan = plan_as_compiled(bundle)
    lines = str(plan).splitlines()
    rows = {line.split()[0]: float(line.split()[1]) for line in lines[2 : lines.index("")]}
    peak, weights, python, together = map(rows.pop, ("peak", "weights", "Python", "together"))
    assert together == pytest.approx(peak + weights + python, abs=0.02)
    assert rows.keys() == {"process", *plan["arenas"]}
    assert sum(rows.values()) == pytest.approx(peak, abs=0.006 * len(rows))
    assert peak == round(plan["peak_bytes"] / 1e6, 2) and weights == round(plan["weights_bytes"] / 1e6, 2)
    assert f"planned peak: {peak:.2f} MB" in lines[0] and "layers' inputs, kept for the backward pass" in str(plan)


def test_a_session_that_needs_more_says_so(bundle):
    plan = mebp.Session(bundle, return_gradients=True).plan
    assert plan["planned_peak_bytes"] > plan["peak_bytes"]
    (line,) = (line.split() for line in str(plan).splitlines() if line.startswith("  session "))
    assert float(line[1]) == round(plan["planned_peak_bytes"] / 1e6, 2)


def test_a_plan_s_values_within_the_fullest_program(bundle):
    plan = mebp.Session(bundle).plan
    lines = str(plan).splitlines()
    shown = lines[lines.index("in use where the scratch arena is fullest") + 2 :]
    assert len(plan["at_peak"]) > 10 and len(shown) == 11
    assert shown[0].split()[0] == plan["at_peak"][0]["name"] and plan["at_peak"][0]["source"] in shown[0]
    assert f"{len(plan['at_peak']) - 10} smaller ones" in shown[-1]


def test_a_plan_is_a_dict_all_the_same(bundle):
    plan = mebp.Session(bundle).plan
    assert isinstance(plan, dict) and json.loads(json.dumps(plan)) == plan
    assert "kept for the backward pass" in plan._repr_html_() and plan._repr_html_().count("<table>") == 2


def test_inspect_prints_the_same_plan(bundle, capsys):
    assert main(["inspect", str(bundle)]) == 0
    assert str(plan_as_compiled(bundle)) in capsys.readouterr().out


def test_what_a_notebook_shows(bundle):
    session = mebp.Session(bundle, optimizer="sgd")
    shown = "Session(model.mebp: batch 2, up to 32 tokens, f32, LoRA rank 8 alpha 16, sgd, step "
    assert repr(session) == f"{shown}0)"
    result = session.step(IDS, IDS)
    assert repr(session) == f"{shown}1)"
    number = r"[\d.e+-]+"
    assert re.fullmatch(
        rf"StepResult\(loss {number}, grad_norm {number}, 31 tokens in {number} s, peak {number} MB\)", repr(result)
    )


# Steps until Ctrl-C comes, then compares with a session that made as many steps undisturbed.
_INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np, mebp
ids = np.arange(60, 92)[None]
# One thread: two wait for each other by spinning, which takes for ever beside other processes.
session, calm = (mebp.Session(sys.argv[1], lr=1e-2, threads=1) for _ in range(2))
for delay in np.random.default_rng(0).uniform(0.005, 0.05, 12):
    timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    before = session.steps
    session.step(ids, ids)
    try:
        timer.start()
        while True:
            session.step(ids, ids)
    except KeyboardInterrupt:
        timer.join()
    assert session.steps > before
    for _ in range(session.steps - before):
        calm.step(ids, ids)
    ours, theirs = session.trainables(), calm.trainables()
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours)
    assert session.loss(ids, ids) == calm.loss(ids, ids)
print("whole", session.steps)
"""


def test_ctrl_c_never_cuts_a_step(bundle):
    run = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, str(bundle)], capture_output=True, text=True, timeout=TIMEOUT
    )
    assert run.returncode == 0 and run.stdout.startswith("whole"), run.stderr


def test_rows_of_different_lengths_are_refused(bundle):
    session, rows = mebp.Session(bundle), [[60, 61, 62], [60, 61]]
    lengths = "input_ids has rows of different lengths, input_ids[0] of 3 tokens and input_ids[1] of 2; "
    for method in (session.loss, session.step, session.loss_and_gradients):
        with pytest.raises(mebp.Error) as caught:
            method(rows, rows)
        assert str(caught.value).startswith(lengths + "pad the shorter ones at the end with any token")
    with pytest.raises(mebp.Error) as caught:
        session.generate(rows)
    assert str(caught.value) == lengths + "give prompts of other lengths in calls of their own"


def test_paths_may_begin_with_the_home_folder(bundle, data, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.mebp").symlink_to(bundle)
    (tmp_path / "run.yaml").write_text("data: ~/data.txt\nlog: ~/run.jsonl\n")
    assert main(["train", "~/tiny.mebp", "--config=~/run.yaml", "--steps=1", "--adapter-out=~/adapter"]) == 0
    assert main(["eval", "~/tiny.mebp", "--data=~/data.txt", "--adapter=~/adapter"]) == 0
    assert main(["inspect", "~/tiny.mebp", "--html=~/page.html", "--log=~/run.jsonl"]) == 0
    assert main(["generate", "~/tiny.mebp", "--prompt=a", "--adapter=~/adapter", "--max-new-tokens=1"]) == 0
    mebp.train("~/tiny.mebp", "~/data.txt", steps=1, state="~/state", plot="~/run.png", progress=False)
    session = mebp.Session("~/tiny.mebp", profile="~/trace.json")
    session.load_adapter("~/adapter")
    session.load_state("~/state")
    session.save_adapter("~/saved/adapter")
    session.save_state("~/saved/state")
    assert inspect("~/tiny.mebp") == inspect(bundle)
    mebp.merge("~/tiny.mebp", "~/adapter", "~/merged")
    (tmp_path / "run").mkdir()
    np.save(tmp_path / "tokens.npy", np.zeros((1, 32), np.int32))
    run = ["mebp-run", "--steps=1", "--tokens=~/tokens.npy", "--state=~/run/state", "--adapter-out=~/run/adapter"]
    compiled = ["mebpc", bundle.parent / "model.onnx", "--output=~/run/new.mebp", "--plan-json=~/run/plan.json"]
    for tool, *arguments in ([*run, "--profile=~/run/trace.json", "~/tiny.mebp"], compiled):
        subprocess.run([find_tool(tool), *arguments], check=True, capture_output=True)
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {
        "state",
        "adapter",
        "trace.json",
        "new.mebp",
        "plan.json",
    }
    made = {
        "adapter",
        "run.jsonl",
        "run",
        "tokens.npy",
        "page.html",
        "run.png",
        "state",
        "saved",
        "trace.json",
        "merged",
    }
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"tiny.mebp", "run.yaml", "data.txt", *made}
    assert {path.name for path in (tmp_path / "saved").iterdir()} >= {"adapter", "state"}


def test_export_and_compile_take_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    models.save(models.build("llama", num_hidden_layers=1), tmp_path / "model")
    mebp.export("~/model", "~/onnx/model.onnx", seq_len=8)
    mebp.compile("~/onnx/model.onnx", "~/tiny.mebp")
    assert {path.name for path in tmp_path.iterdir()} == {"model", "onnx", "tiny.mebp"}


def test_a_state_carries_what_the_caller_adds_of_any_size(bundle, tmp_path):
    session = mebp.Session(bundle)
    for user in (b"", b"x" * 5000, bytes(range(256)) * (3 << 12)):
        session.save_state(tmp_path / "state", user)
        assert mebp.Session(bundle).load_state(tmp_path / "state") == user


def test_room_on_the_disk_is_asked_for(bundle, tmp_path):
    session = mebp.Session(bundle)
    session.check_space()
    session.check_space(tmp_path / "state", tmp_path / "adapter")
    assert list(tmp_path.iterdir()) == [] and not session.is_poisoned and session.notes == ""
