# SPDX-License-Identifier: Apache-2.0
"""The run's log, and its picture."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.training.log import Evaluation, Record, RunLog, Test, read_log, write_table
from mebp.training.plot import curves_of, plot_run


def record(step: int) -> Record:
    return Record(step, loss=3.0 / step, grad_norm=1.0, lr=1e-3, tokens=31, seconds=0.1, peak_bytes=1000)


def test_a_resumed_run_keeps_the_lines_before_it(tmp_path):
    path = tmp_path / "run.jsonl"
    entries = [record(1), record(2), Evaluation(2, 2.5), record(3), Evaluation(3, 2.0)]
    log = RunLog(path, resume_at=0)
    for entry in entries:
        log.add(entry)
    assert [json.loads(line) for line in path.read_text().splitlines()][2] == {"step": 2, "eval_loss": 2.5}
    resumed = RunLog(path, resume_at=2)
    assert resumed.entries == entries[:3] and len(path.read_text().splitlines()) == 3
    assert resumed.records == entries[:2] and resumed.evaluations == entries[2:3] and resumed.last_evaluated == 2
    assert RunLog(path, resume_at=0).entries == [] and path.read_text() == ""


def test_a_last_line_that_a_full_disk_cut_is_left_out(tmp_path):
    path = tmp_path / "run.jsonl"
    log = RunLog(path, resume_at=0)
    log.add(record(1))
    whole = path.read_text()
    path.write_text(whole + whole[:30])
    assert RunLog(path, resume_at=1).entries == [record(1)] and path.read_text() == whole


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "1",
        '{"step": 1e999, "loss": 1}',
        '{"step": 1, "eval_loss": ' + "9" * 400 + "}",
        '{"step": 1, "eval_loss": 1, "more": ' + "9" * 400 + "}",
        '{"step": 1, "eval_loss": ' + "9" * 5000 + "}",
        '{"step": 1, "eval_loss": "low"}',
        "[" * 5000,
    ],
)
def test_what_is_no_log_is_one_line(tmp_path, line):
    path = tmp_path / "run.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(Error) as caught:
        read_log(path)
    assert str(caught.value).startswith(f"{path}: is not a log of mebp train; ")


def test_a_table_has_the_same(tmp_path):
    path, other = tmp_path / "run.csv", tmp_path / "training.csv"
    entries = [record(1), record(2), Evaluation(2, 2.5), record(3), Test(2, 2.75)]
    log = RunLog(path, resume_at=0)
    for entry in entries:
        log.add(entry)
    assert path.read_text().splitlines() == [
        "step,loss,grad_norm,lr,tokens,seconds,peak_bytes,eval_loss,test_loss",
        "1,3.0,1.0,0.001,31,0.1,1000,,",
        "2,1.5,1.0,0.001,31,0.1,1000,,",
        "2,,,,,,,2.5,",
        "3,1.0,1.0,0.001,31,0.1,1000,,",
        "2,,,,,,,,2.75",
    ]
    assert read_log(path) == entries and all(type(entry.step) is int for entry in read_log(path))
    write_table(entries, other)
    assert other.read_bytes() == path.read_bytes()
    assert RunLog(path, resume_at=2).entries == [*entries[:3], entries[4]]
    resumed = RunLog(None, resume_at=2, table=other)
    resumed.add(record(3))
    assert resumed.entries == [*entries[:3], entries[4], record(3)] and other.read_bytes() != path.read_bytes()
    assert RunLog(None, resume_at=0, table=other).entries == []


@pytest.mark.parametrize("content", ["step,loss\n1,2\n", "step 1\n", '{"step": 1, "loss": 2.0}\n'])
def test_another_table_is_not_overwritten(tmp_path, content):
    path = tmp_path / "run.csv"
    path.write_text(content)
    with pytest.raises(Error, match=r"run.csv: is not a log of mebp train; choose another --log"):
        RunLog(path, resume_at=1)
    assert path.read_text() == content


def test_without_a_file_entries_are_kept():
    log = RunLog(None, resume_at=0)
    log.add(record(1))
    assert log.records == [record(1)] and log.last_evaluated is None


@pytest.mark.parametrize("content", ["step 1\n", '{"step": 1}\n', "3\n", "step 1"])
def test_another_file_is_not_overwritten(tmp_path, content):
    path = tmp_path / "run.jsonl"
    path.write_text(content)
    with pytest.raises(Error, match=r"run.jsonl: is not a log of mebp train; choose another --log"):
        RunLog(path, resume_at=1)
    assert path.read_text() == content


def test_a_log_that_cannot_be_read(tmp_path):
    with pytest.raises(Error, match=r"run.jsonl: cannot be read \(No such file or directory\); choose another --log"):
        read_log(tmp_path / "run.jsonl")
    (tmp_path / "run.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Error, match=r"run.jsonl: is not a log of mebp train; choose another --log"):
        read_log(tmp_path / "run.jsonl")


def test_the_picture_has_every_curve(tmp_path):
    records = [record(step) for step in range(1, 41)]
    plot_run(records, [Evaluation(20, 1.0), Evaluation(40, 0.5)], tmp_path / "run.svg", title="model.mebp")
    drawn = (tmp_path / "run.svg").read_text()  # which names each text that it draws
    assert all(f"<!-- {text} -->" in drawn for text in ("model.mebp", "each step", "mean of 4 steps", "evaluation"))
    plot_run(records[:3], [], tmp_path / "short.svg", title="model.mebp")
    drawn = (tmp_path / "short.svg").read_text()
    assert "mean of" not in drawn and "evaluation" not in drawn
    plot_run(records[:1], [], tmp_path / "folder" / "run.png", title="model.mebp")
    assert (tmp_path / "folder" / "run.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(Error, match=r"run.what: cannot be written \(.*\); choose another --plot"):
        plot_run([record(1)], [], tmp_path / "run.what", title="")


def test_a_picture_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "run.png"
    plot_run([record(1)], [], path, title="")
    before = path.read_bytes()

    def fill_the_disk(figure, target, **options):
        Path(target).write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fill_the_disk)
    with pytest.raises(Error, match=r"run.png: cannot be written \(No space left on device\); choose another --plot"):
        plot_run([record(1), record(2)], [], path, title="")
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_picture_has_a_panel_for_what_is_watched(tmp_path):
    records = [replace(record(step), metrics={"reward": step / 40, "reward_std": 0.25}) for step in range(1, 41)]
    curves = curves_of(("reward", "reward"), {"reward": "reward", "spread": "reward_std"})
    assert [curve.label for curve in curves] == ["reward", "spread", "learning rate"]
    assert [curves[2].of(each) for each in (records[0], Evaluation(1, 2.0))] == [records[0].lr, None]
    plot_run(records, [Evaluation(20, -0.5, {"reward": 0.5})], tmp_path / "run.svg", "", curves)
    drawn = (tmp_path / "run.svg").read_text()
    assert all(f"<!-- {text} -->" in drawn for text in ("reward", "spread", "learning rate", "evaluation"))
