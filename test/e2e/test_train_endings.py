# SPDX-License-Identifier: Apache-2.0
"""How a run may end, and what is left of it: signals, outputs that are gone, callbacks, losses that explode."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import mebp
from mebp import Error, Session, StepResult
from mebp.training.state import steps as saved_steps
from support.commands import MEBP, TIMEOUT, has_lines, printed, running
from support.commands import mebp as command

QUIET = {"progress": False}


def adapter_bytes(folder: Path) -> bytes:
    return (folder / "adapter_model.safetensors").read_bytes()


def steps_of(bundle: Path, state: Path) -> int:
    session = Session(bundle)
    session.load_state(state)
    return session.steps


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_save(bundle, data, tmp_path, number, status):
    log, state = tmp_path / "run.jsonl", tmp_path / "state"
    arguments = ["train", bundle, "--data", data, "--steps", 100000, "--log", log, "--state", state]
    previous = signal.signal(number, signal.SIG_DFL)  # a child would inherit from nohup that it is ignored
    try:
        with running(*arguments, "--adapter-out", tmp_path / "adapter", until=has_lines(log, 2)) as process:
            process.send_signal(number)
            assert process.wait(TIMEOUT) == status
            assert "stopped after step" in printed(process.stdout) and not printed(process.stderr)
    finally:
        signal.signal(number, previous)
    assert adapter_bytes(tmp_path / "adapter")
    assert steps_of(bundle, state) == len(log.read_text().splitlines())


@pytest.mark.parametrize(
    ("options", "hint"), [((), "with --state DIR a run can go on"), (("--state", "state"), "continue with --resume")]
)
def test_a_stopped_run_says_how_one_goes_on(bundle, data, tmp_path, options, hint):
    log = tmp_path / "run.jsonl"
    options = [tmp_path / each if each == "state" else each for each in options]
    with running(
        "train", bundle, "--data", data, "--steps", 100000, "--log", log, *options, until=has_lines(log, 2)
    ) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
        (line,) = [line for line in printed(process.stdout).splitlines() if line.startswith("stopped after step")]
        assert line.endswith(f" of 100000; {hint}")


def test_nohup_is_meant(bundle, data, tmp_path):
    log = tmp_path / "run.jsonl"
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which a child inherits
    try:
        with running("train", bundle, "--data", data, "--steps", 100000, "--log", log, until=has_lines(log, 2)) as run:
            run.send_signal(signal.SIGHUP)
            lines = log.read_text().count("\n")
            while log.read_text().count("\n") < lines + 3:
                assert run.poll() is None
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_a_signal_takes_its_course_when_a_call_has_saved(bundle, data, tmp_path):
    seen = []
    previous = signal.signal(signal.SIGTERM, lambda *_: seen.append(steps_of(bundle, tmp_path / "state")))
    try:
        terminate = lambda record: os.kill(os.getpid(), signal.SIGTERM) if record.step == 2 else None  # noqa: E731
        run = mebp.train(bundle, data, steps=9, state=tmp_path / "state", callback=terminate, **QUIET)
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert seen == [2] and run.interrupted and run.signal == signal.SIGTERM


def lines_of(process: subprocess.Popen, start: str) -> int:
    return sum(line.startswith(start) for line in printed(process.stdout).splitlines())


def wait_for(process: subprocess.Popen, start: str, count: int = 1) -> None:
    """Until the run has printed so many lines that begin so."""
    while lines_of(process, start) < count:
        assert process.poll() is None, printed(process.stderr)
        time.sleep(0.01)


def resident_weights(process: subprocess.Popen) -> int:
    """Bytes of the bundle's weights that are in the process's memory."""
    parts = Path(f"/proc/{process.pid}/smaps").read_text().split("weights.bin\n")[1:]
    return sum(1024 * int(re.search(r"^Rss: +(\d+) kB", part, re.MULTILINE).group(1)) for part in parts)


@pytest.mark.parametrize("options", [[], ["--optimizer", "mezo"], ["--accumulate", 2, "--clip", 0.5]])
def test_a_pause_frees_the_memory_and_changes_nothing(bundle, data, tmp_path, options):
    log, state = tmp_path / "run.jsonl", tmp_path / "state"
    common = ["train", bundle, "--data", data, "--lr", 1e-2, *options]
    arguments = [*common, "--steps", 100000, "--log", log, "--state", state, "--pause-on", "SIGUSR1"]
    with running(*arguments, until=has_lines(log, 2)) as process:
        assert resident_weights(process) > 0
        for count, goes_on in enumerate((signal.SIGUSR1, signal.SIGCONT), start=1):
            process.send_signal(signal.SIGUSR1)
            wait_for(process, "paused after step ", count)
            paused = saved_steps(state)
            assert f"paused after step {paused}, with its state in {state}; SIGUSR1 or SIGCONT continues it" in printed(
                process.stdout
            )
            written = len(log.read_text().splitlines())
            assert written == paused
            assert resident_weights(process) == 0
            process.send_signal(goes_on)
            wait_for(process, "continues after step ", count)
            while len(log.read_text().splitlines()) < written + 2:
                assert process.poll() is None, printed(process.stderr)
        process.send_signal(signal.SIGUSR1)
        wait_for(process, "paused after step ", 3)
        process.send_signal(signal.SIGINT)  # ends a run that waits, too
        assert process.wait(TIMEOUT) == 130
    steps = saved_steps(state)
    assert len(log.read_text().splitlines()) == steps
    assert command(*common, "--steps", steps, "--adapter-out", tmp_path / "whole").returncode == 0
    resumed = ["--state", state, "--steps", steps, "--resume", "--adapter-out", tmp_path / "paused"]
    assert command(*common, *resumed).returncode == 0
    assert adapter_bytes(tmp_path / "paused") == adapter_bytes(tmp_path / "whole")


def test_a_state_that_is_gone_after_a_pause_loses_no_more(bundle, data, tmp_path):
    log, state, adapter = tmp_path / "run.jsonl", tmp_path / "state", tmp_path / "adapter"
    arguments = ["train", bundle, "--data", data, "--steps", 100000, "--log", log, "--state", state]
    with running(*arguments, "--adapter-out", adapter, "--pause-on", "SIGUSR2", until=has_lines(log, 1)) as process:
        process.send_signal(signal.SIGUSR2)
        wait_for(process, "paused after step ")
        for file in state.glob("state*"):
            file.unlink()
        process.send_signal(signal.SIGUSR2)
        assert process.wait(TIMEOUT) == 2
        assert printed(process.stderr) == (
            f"mebp: {state / 'state.bin'}: cannot open: No such file or directory; check the path\n"
        )
    assert not (adapter / "adapter_model.safetensors").exists()


def test_pauses_are_the_main_thread_s(bundle, data, tmp_path):
    caught = []

    def train() -> None:
        with pytest.raises(Error) as error:
            mebp.train(bundle, data, steps=1, pause_on="SIGUSR1", state=tmp_path / "state", **QUIET)
        caught.append(str(error.value))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    line = "pause_on SIGUSR1: signals are the main thread's to see; train in it, or leave it out"
    assert caught == [line]


def test_a_reader_that_goes_away(bundle, data, tmp_path):
    state, adapter = tmp_path / "state", tmp_path / "adapter"
    arguments = ["train", bundle, "--data", data, "--steps", 1000, "--state", state, "--adapter-out", adapter]
    with subprocess.Popen([*MEBP, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        for line in process.stdout:
            if line.startswith(b"step 1/"):
                break
        process.stdout.close()
        assert process.wait(TIMEOUT) == 2
        lines = process.stderr.read().decode().splitlines()
    step = steps_of(bundle, state)
    assert step >= 1 and adapter_bytes(adapter)
    assert lines == [
        "mebp: standard output: cannot be written (Broken pipe), so the run ends here; let it go to a file with room; "
        f"kept: the state of step {step} in {state}, the adapter of step {step} in {adapter}"
    ]


def test_a_full_disk_behind_standard_output(bundle, data, tmp_path):
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for arguments in (["train", bundle, "--data", data, "--steps", 3], ["inspect", bundle]):
        with open("/dev/full", "w") as full:
            options = {"stdout": full, "stderr": subprocess.PIPE, "text": True, "env": buffered}
            run = subprocess.run([*MEBP, *map(str, arguments)], **options)
        assert run.returncode == 2 and len(run.stderr.splitlines()) == 1, run.stderr
        assert run.stderr.startswith("mebp: standard output: cannot be written (No space left on device)")


@pytest.mark.parametrize("raised", [ValueError("mine"), SystemExit(3)])
def test_what_a_callback_raises_comes_after_the_saves(bundle, data, tmp_path, raised):
    def fail(record):
        if record.step == 2:
            raise raised

    folders = {"state": tmp_path / "state", "adapter_out": tmp_path / "adapter"}
    with pytest.raises(type(raised)) as caught:
        mebp.train(bundle, data, steps=5, callback=fail, **folders, **QUIET)
    assert caught.value is raised
    assert steps_of(bundle, folders["state"]) == 2 and adapter_bytes(folders["adapter_out"])


def test_an_explosion_is_told_and_keeps_the_adapter_of_before(bundle, data, tmp_path, monkeypatch, capsys):
    adapter, state = tmp_path / "adapter", tmp_path / "state"
    mebp.train(bundle, data, steps=3, adapter_out=adapter, **QUIET)
    before = adapter_bytes(adapter)
    step = Session.step  # a model as small as this one has other ways to go wrong

    def explode(session: Session, *batches: object) -> StepResult:
        result = step(session, *batches)
        return replace(result, loss=40.0) if session.steps > 1 else result

    monkeypatch.setattr(Session, "step", explode)
    options = {"steps": 5, "adapter_out": adapter, "overwrite": True, "state": state}
    with pytest.raises(Error) as caught:
        mebp.train(bundle, data, **options)
    told = "the loss has exploded: "
    shown = capsys.readouterr().out
    line = "step 2/5  the loss has exploded: 40.0 nats, and guessing has "
    assert shown.count(told) == 1 and line in shown and "; start over with a lower --lr or with --clip" in shown, shown
    assert told in str(caught.value)
    assert f"{adapter} keeps the adapter that was there; kept: the state" in str(caught.value)
    assert adapter_bytes(adapter) == before
    mebp.train(bundle, data, **options | {"adapter_out": tmp_path / "other"})
    assert adapter_bytes(tmp_path / "other")  # better than nothing, and it was told


def test_a_loss_that_is_not_finite_keeps_the_adapter_of_before(bundle, data, tmp_path):
    adapter = tmp_path / "adapter"
    mebp.train(bundle, data, steps=1, adapter_out=adapter, **QUIET)
    before = adapter_bytes(adapter)
    kept = f"{adapter} keeps the adapter that was there; nothing was kept"
    with pytest.raises(Error, match=rf"^step 2: the loss is .*; {kept}$"):
        mebp.train(bundle, data, steps=5, lr=1e30, optimizer="sgd", adapter_out=adapter, overwrite=True, **QUIET)
    assert adapter_bytes(adapter) == before


def overfitting(monkeypatch, losses: list[float]) -> None:
    remaining = list(losses)
    monkeypatch.setattr("mebp.training.objectives.rows.evaluate", lambda *_, **__: remaining.pop(0))


def test_the_best_adapter_is_kept_and_patience_ends_the_run(bundle, data, tmp_path, monkeypatch, capsys):
    options = {"lr": 1e-2, "steps": 9, "eval": data, "eval_every": 1}
    overfitting(monkeypatch, [3.0, 2.0, 2.5, 2.0, 1.0])
    run = mebp.train(bundle, data, **options, adapter_out=tmp_path / "best", keep="best", patience=2)
    assert [evaluation.eval_loss for evaluation in run.evaluations] == [3.0, 2.0, 2.5, 2.0] and len(run.records) == 4
    shown = capsys.readouterr().out
    assert "no lower eval loss in 2 evaluations, so the run ends here; the best is 2.0000 after step 2" in shown
    assert f"adapter: {tmp_path / 'best'} (eval loss 2.0000, after step 2)" in shown and "stopped" not in shown
    mebp.train(bundle, data, lr=1e-2, steps=2, adapter_out=tmp_path / "two", **QUIET)
    assert adapter_bytes(tmp_path / "best") == adapter_bytes(tmp_path / "two")


def test_a_resumed_run_knows_its_best(bundle, data, tmp_path, monkeypatch):
    options = {"lr": 1e-2, "steps": 9, "eval": data, "eval_every": 1, "patience": 3, "keep": "best"}
    options |= {"adapter_out": tmp_path / "best", "state": tmp_path / "state", **QUIET}
    overfitting(monkeypatch, [3.0, 2.0, 2.5])
    mebp.train(bundle, data, **options, callback=lambda record: record.step == 3)
    before = adapter_bytes(tmp_path / "best")
    overfitting(monkeypatch, [2.9, 2.8])
    run = mebp.train(bundle, data, **options, resume=True)
    assert run.session.steps == 5 and adapter_bytes(tmp_path / "best") == before
    again = mebp.train(bundle, data, **options, resume=True)  # which has finished
    assert again.session.steps == 5 and adapter_bytes(tmp_path / "best") == before


def test_all_adapters_are_kept(bundle, data, tmp_path):
    folder = tmp_path / "adapters"
    options = {"lr": 1e-2, "eval": data, "eval_every": 2, "adapter_out": folder, "keep": "all", **QUIET}
    mebp.train(bundle, data, steps=5, **options)
    assert sorted(entry.name for entry in folder.glob("step-*")) == ["step-2", "step-4", "step-5"]
    with pytest.raises(Error, match=r"exists already \(an adapter\); add --overwrite"):
        mebp.train(bundle, data, steps=2, **options)
    for name in ("value_head.safetensors", "value_adapter.safetensors"):  # as a run of ppo leaves them
        (folder / "step-4" / name).touch()
    mebp.train(bundle, data, steps=2, **options, overwrite=True)
    assert [entry.name for entry in folder.glob("step-*")] == ["step-2"]
    del options["eval"], options["eval_every"]
    mebp.train(bundle, data, steps=3, **options, overwrite=True, save_every=1, state=tmp_path / "state")
    assert sorted(entry.name for entry in folder.glob("step-*")) == ["step-1", "step-2", "step-3"]


def test_a_save_that_fails_tells_what_was_kept(bundle, data, tmp_path, monkeypatch):
    state, save = tmp_path / "state", Session.save_state

    def fill_up(session: Session, *given: object) -> None:
        if session.steps > 2:
            raise Error("state.bin: the disk is full")
        save(session, *given)

    monkeypatch.setattr(Session, "save_state", fill_up)
    with pytest.raises(Error) as caught:
        mebp.train(bundle, data, steps=9, state=state, save_every=2, adapter_out=tmp_path / "adapter", **QUIET)
    assert str(caught.value) == (
        f"state.bin: the disk is full; kept: the state of step 2 in {state}, "
        f"the adapter of step 4 in {tmp_path / 'adapter'}"
    )
    assert steps_of(bundle, state) == 2


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"keep": "some"}, "--keep is 'some'; choose best, last, all"),
        ({"keep": "all"}, "--keep all needs --adapter-out DIR, where adapters go, or --model-out DIR"),
        (
            {"keep": "best", "adapter_out": "a", "steps": 1},
            "--keep best needs --eval FILE, the data to measure the loss on, or --val-split X",
        ),
        (
            {"patience": 2, "steps": 1},
            "--patience needs --eval FILE, the data to measure the loss on, or --val-split X",
        ),
        ({"patience": 0}, "--patience is 0; give at least 1"),
    ],
)
def test_refusals(bundle, data, options, line):
    with pytest.raises(Error) as caught:
        mebp.train(bundle, data, **options)
    assert str(caught.value) == line


def test_one_step_is_not_steps(bundle, tmp_path):
    (tmp_path / "one.txt").write_text("ab")
    run = command("train", bundle, "--data", tmp_path / "one.txt", "--epochs", 1, "--log", tmp_path / "run.jsonl")
    assert "model.mebp: 1 step, adamw" in run.stdout and "2 tokens to predict in 1 row of" in run.stdout, run.stdout
    assert [json.loads(line)["step"] for line in (tmp_path / "run.jsonl").read_text().splitlines()] == [1]
