# SPDX-License-Identifier: Apache-2.0
"""mebp.train: the command as a call, its callback, and Ctrl-C within it."""

import json
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import mebp
from mebp.training.log import numbers_of
from support.commands import TIMEOUT
from support.commands import mebp as command


def test_it_is_the_command(bundle, data, tmp_path, capfd):
    seen = []
    files = {"log": tmp_path / "call.jsonl", "adapter_out": tmp_path / "call"}
    options = {"steps": 5, "lr": 1e-2, "seed": 3, "accumulate": 2, "eval": data}
    run = mebp.train(str(bundle), str(data), **options, **files, callback=seen.append, progress=False)
    assert capfd.readouterr() == ("", "")
    assert seen == run.records and [record.step for record in seen] == [1, 2, 3, 4, 5]
    given = [word for name, value in options.items() for word in (f"--{name}", value)]
    files = ["--adapter-out", tmp_path / "command", "--log", tmp_path / "command.jsonl"]
    done = command("train", bundle, "--data", data, *given, *files)
    assert done.returncode == 0, done.stderr
    ours, theirs = (
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("call", "command")
    )
    varying = ("seconds", "peak_bytes")
    assert [{key: value for key, value in line.items() if key not in varying} for line in ours] == [
        {key: value for key, value in line.items() if key not in varying} for line in theirs
    ]
    assert [{"step": entry.step, **numbers_of(entry)} for entry in [*run.records, *run.evaluations]] == ours
    tensors = "adapter_model.safetensors"
    assert (tmp_path / "call" / tensors).read_bytes() == (tmp_path / "command" / tensors).read_bytes()


def test_the_session_is_as_the_run_left_it(bundle, data):
    run = mebp.train(bundle, data, steps=3, lr=1e-2, progress=False)
    assert run.session.steps == 3 and not run.interrupted
    assert any(values.any() for key, values in run.session.trainables().items() if "lora_B" in key)
    assert repr(run).startswith(f"TrainingRun(3 steps, loss {run.records[0].loss:.4f} to {run.records[-1].loss:.4f}, ")


def test_the_callback_ends_the_run(bundle, data, tmp_path):
    options = {"steps": 6, "lr": 1e-2, "progress": False}
    stopped = mebp.train(bundle, data, **options, state=tmp_path / "state", callback=lambda record: record.step == 2)
    assert len(stopped.records) == stopped.session.steps == 2 and not stopped.interrupted
    resumed = mebp.train(bundle, data, **options, state=tmp_path / "state", resume=True)
    assert [record.step for record in resumed.records] == [3, 4, 5, 6]
    whole = mebp.train(bundle, data, **options)
    assert [record.loss for record in whole.records] == [record.loss for record in stopped.records + resumed.records]


def test_lines_are_shown_unless_asked_not_to(bundle, data, capsys):
    mebp.train(bundle, data, steps=1)
    assert "step 1/1  loss" in capsys.readouterr().out


def test_it_runs_in_another_thread(bundle, data):
    runs = []
    thread = threading.Thread(target=lambda: runs.append(mebp.train(bundle, data, steps=2, progress=False)))
    thread.start()
    thread.join()
    assert [record.step for record in runs[0].records] == [1, 2]


# Ctrl-C comes while a step runs, and the notebook goes on with what is saved.
_INTERRUPTED = """
import os, signal, sys, threading
import numpy as np, mebp
bundle, data, folder = sys.argv[1:]
steps = []
def press(record):
    steps.append(record.step)
    if record.step == 3:
        threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGINT)).start()
before = signal.getsignal(signal.SIGINT)
options = {"lr": 1e-2, "progress": False}
try:
    mebp.train(bundle, data, steps=100000, adapter_out=f"{folder}/adapter", state=f"{folder}/state", callback=press,
               **options)
except KeyboardInterrupt as error:
    print("interrupted", error)
assert signal.getsignal(signal.SIGINT) is before
session, whole = mebp.Session(bundle), mebp.train(bundle, data, steps=steps[-1], **options).session
session.load_state(f"{folder}/state")
assert session.steps == steps[-1] >= 3
ours, theirs = session.trainables(), whole.trainables()
assert all(np.array_equal(ours[key], theirs[key]) for key in ours)
session.load_adapter(f"{folder}/adapter")
assert all(np.array_equal(values, theirs[key]) for key, values in session.trainables().items())
"""


def test_ctrl_c_raises_when_the_step_has_ended(bundle, data, tmp_path):
    arguments = [str(bundle), str(data), str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, *arguments], capture_output=True, text=True, timeout=TIMEOUT
    )
    assert run.returncode == 0 and run.stdout.startswith("interrupted stopped after step "), run.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"setps": 3}, "unknown option 'setps'; did you mean steps?"),
        ({"steps": 0}, "--steps is 0"),
        ({"steps": "many"}, "steps is 'many'; give a whole number"),
        ({"resume": True}, "--resume needs --state"),
        ({"optimizer": "galore"}, "galore"),
    ],
)
def test_refusals(bundle, data, options, words):
    with pytest.raises(mebp.Error) as caught:
        mebp.train(bundle, data, **options)
    assert words in str(caught.value)


def test_numbers_of_numpy_are_numbers(bundle, data):
    run = mebp.train(bundle, data, steps=np.int64(1), lr=np.float32(0.5), progress=False)
    assert run.records[0].lr == 0.5


def test_a_profile_has_every_kernel_call(bundle, data, tmp_path):
    path = tmp_path / "trace.json"
    done = command("train", bundle, "--data", data, "--steps", 2, "--profile", path)
    assert done.returncode == 0, done.stderr
    events = json.loads(path.read_text())
    programs = [event["name"] for event in events if event["cat"] == "program"]
    assert programs.count("objective of head") + programs.count("objective of lm_head") == 2, programs
    kernels = {event["name"] for event in events if event["cat"] == "kernel"}
    assert {"linear", "linear_input_gradient", "attention"} <= kernels
    assert any("self_attn" in event["args"]["source"] for event in events)
    done = command("train", bundle, "--data", data, "--steps", 1, "--profile", tmp_path / "none" / "trace.json")
    assert done.returncode == 2
    assert "none/trace.json: cannot open for writing: No such file or directory; check the path" in done.stderr


def test_a_resumed_run_reports_to_the_same_place(bundle, data, tmp_path, monkeypatch):
    calls = []
    fake = SimpleNamespace(
        init=lambda **settings: calls.append(settings) or SimpleNamespace(id="k1"),
        log=lambda figures, step: calls.append((step, "train/loss" in figures)),
        finish=lambda: None,
        __spec__=SimpleNamespace(),
    )
    monkeypatch.setitem(sys.modules, "wandb", fake)
    options = {"state": tmp_path / "state", "report_to": "wandb", "progress": False}
    mebp.train(bundle, data, steps=2, **options)
    assert (
        calls[0]["name"] == bundle.stem and calls[0]["config"]["--lr"] == 2e-4 and calls[1:] == [(1, True), (2, True)]
    )
    calls.clear()
    mebp.train(bundle, data, steps=3, resume=True, **options)
    assert calls[0]["id"] == "k1" and calls[1:] == [(3, True)]
    calls.clear()
    mebp.train(bundle, data, steps=3, resume=True, **options)  # which has finished
    assert not calls
