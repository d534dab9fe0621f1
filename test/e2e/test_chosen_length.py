# SPDX-License-Identifier: Apache-2.0
"""A run that nobody has told how long to train: what it chooses can be given, and stays as it is when it goes on."""

import json
from pathlib import Path

import pytest

import mebp
from mebp import Error
from mebp.training import keeping, state

QUIET = {"progress": False, "lr": 1e-2, "optimizer": "sgd"}


@pytest.fixture
def samples(tmp_path) -> Path:
    path = tmp_path / "samples.jsonl"
    entries = [{"prompt": f"{number}", "completion": "abc"[: number % 3 + 1]} for number in range(88)]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def adapter_bytes(folder: Path) -> bytes:
    return (folder / "adapter_model.safetensors").read_bytes()


def test_the_printed_options_repeat_it(bundle, samples, tmp_path, capsys):
    run = mebp.train(bundle, samples, **{**QUIET, "progress": True}, adapter_out=tmp_path / "chosen")
    shown = capsys.readouterr().out
    line = next(line for line in shown.splitlines() if line.startswith("--epochs"))
    assert line == (
        "--epochs 5 --val-split 0.05 --keep best --patience 3: passes over the data, 200 steps; 8 of 88 samples are "
        "held out to measure on; ends sooner after 3 evaluations without a lower loss"
    )
    assert shown.count("--schedule linear --warmup-ratio 0.03") == 1
    assert [each.step for each in run.evaluations] == [40, 80, 120, 160, 200][: len(run.evaluations)]
    given = {"epochs": 5, "val_split": 0.05, "keep": "best", "patience": 3}
    mebp.train(bundle, samples, **QUIET, **given, adapter_out=tmp_path / "given")
    assert adapter_bytes(tmp_path / "given") == adapter_bytes(tmp_path / "chosen")
    words = "--epochs 5 --val-split 0.05 --keep best --patience 3"
    card = (tmp_path / "chosen" / "README.md").read_text()
    assert all(word in card for word in words.split()), card


def test_it_goes_on_as_it_began(bundle, samples, tmp_path, capsys):
    whole = mebp.train(bundle, samples, **QUIET, adapter_out=tmp_path / "whole", log=tmp_path / "whole.jsonl")
    options = {
        **QUIET,
        "adapter_out": tmp_path / "halves",
        "state": tmp_path / "state",
        "log": tmp_path / "halves.jsonl",
    }
    mebp.train(bundle, samples, **options, callback=lambda record: record.step == 50)
    rest = mebp.train(bundle, samples, **{**options, "progress": True}, resume=True)
    assert "continues after step 50" in capsys.readouterr().out
    assert adapter_bytes(tmp_path / "halves") == adapter_bytes(tmp_path / "whole")
    assert [each.eval_loss for each in rest.evaluations] == [each.eval_loss for each in whole.evaluations]
    with pytest.raises(Error, match=r"was made with --val-split 0.05, not None; resume with the same"):
        mebp.train(bundle, samples, **options, resume=True, eval=samples)


def test_a_state_of_an_older_build_takes_one_pass(bundle, samples, tmp_path, monkeypatch):
    options = {**QUIET, "adapter_out": tmp_path / "halves", "state": tmp_path / "state"}
    with monkeypatch.context() as older:
        older.setattr(keeping.state, "save", lambda session, folder, description, parts: session.save_state(
            folder, json.dumps({name: value for name, value in description.items() if name != "chosen"}).encode()
        ))  # fmt: skip
        mebp.train(bundle, samples, **options, epochs=1, callback=lambda record: record.step == 5)
    assert "chosen" not in state.saved_with(tmp_path / "state")
    run = mebp.train(bundle, samples, **options, resume=True)
    assert run.session.steps == 44 and not run.evaluations
    mebp.train(bundle, samples, **QUIET, epochs=1, adapter_out=tmp_path / "whole")
    assert adapter_bytes(tmp_path / "halves") == adapter_bytes(tmp_path / "whole")


def test_few_samples_are_all_trained_on(bundle, samples, tmp_path):
    lines = samples.read_text().splitlines(keepends=True)
    samples.write_text("".join(lines[:20]))
    run = mebp.train(bundle, samples, **QUIET)
    assert run.session.steps == 100 and not run.evaluations
    run = mebp.train(bundle, samples, **QUIET, steps=1, val_split=0.1)
    assert [each.step for each in run.evaluations] == [1]
    samples.write_text(lines[0] * 5)
    with pytest.raises(Error) as caught:
        mebp.train(bundle, samples, **QUIET, steps=1, val_split=0.5)
    assert str(caught.value) == (
        f"--val-split 0.5: {samples} has too few samples that differ to hold some out; give --eval FILE"
    )


def test_all_that_are_kept_are_of_evaluations(bundle, samples, tmp_path):
    options = {"steps": 4, "val_split": 0.1, "eval_every": 4, "save_every": 1, "keep": "all"}
    mebp.train(bundle, samples, **QUIET, **options, adapter_out=tmp_path / "all")
    assert [folder.name for folder in (tmp_path / "all").glob("step-*")] == ["step-4"]


def test_a_ratio_warms_up(bundle, samples):
    run = mebp.train(bundle, samples, **QUIET, steps=10, schedule="linear", warmup_ratio=0.25)
    same = mebp.train(bundle, samples, **QUIET, steps=10, schedule="linear", warmup=3)
    assert [record.lr for record in run.records] == [record.lr for record in same.records]
