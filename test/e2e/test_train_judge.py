# SPDX-License-Identifier: Apache-2.0
"""`mebp train --judge`: what mebp judge finds, within the memory of the run, which goes on as if it had not been."""

import json
import math
import shlex
from pathlib import Path

import pytest

import mebp
from mebp import Error, Session
from mebp.cli import main
from mebp.training import judging
from support import models
from support.commands import refusal_in_process
from support.textmodel import make_text_bundle, make_tokenizer

SAMPLES = [{"prompt": f"{number}=", "completion": f"{number % 3}"} for number in range(9)]
QUESTIONS = [{**sample, "accept": [sample["completion"]]} for sample in SAMPLES[:4]]
OPTIONS = {"epochs": 20, "lr": 2e-2, "progress": False}


def write(path: Path, entries: list[dict]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    return write(tmp_path / "data.jsonl", SAMPLES), write(tmp_path / "questions.jsonl", QUESTIONS)


def test_it_finds_what_judge_finds_and_trains_the_same_bits(bundle, files, tmp_path, capsys):
    data, questions = files
    plain = mebp.train(bundle, data, **OPTIONS, test=questions, adapter_out=tmp_path / "plain")
    capsys.readouterr()
    shown = {**OPTIONS, "progress": True}
    run = mebp.train(bundle, data, **shown, test=questions, judge=True, adapter_out=tmp_path / "judged")
    said = capsys.readouterr().out
    assert run.judgement.headline() in said
    command = next(line for line in said.splitlines() if line.startswith("in full: "))
    assert main(shlex.split(command.removeprefix("in full: mebp ")) + ["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ours = run.judgement.figures
    for name in ("right", "base_right", "loss", "base_loss"):
        assert ours[name] == found["figures"][name], name
    assert ours["forgets"] != found["figures"]["forgets"] and not math.isnan(ours["forgets"]), (
        "of 100 texts, and of 200"
    )
    assert (tmp_path / "judged/adapter_model.safetensors").read_bytes() == (
        tmp_path / "plain/adapter_model.safetensors"
    ).read_bytes()
    after, before = (each.session.trainables() for each in (run, plain))
    assert all((after[name] == before[name]).all() for name in before)
    assert run.session.steps == plain.session.steps and run.session.step([[1, 2, 3]], [[1, 2, 3]]).loss > 0
    assert not list(tmp_path.glob(".judging-*"))


def test_at_most_a_hundred_samples_from_all_over_the_file(bundle, tmp_path):
    many = [{"prompt": f"{number}=", "completion": "0", "accept": ["0"]} for number in range(250)]
    data, questions = write(tmp_path / "data.jsonl", SAMPLES), write(tmp_path / "many.jsonl", many)
    (tmp_path / "eval.jsonl").write_text(data.read_text())
    run = mebp.train(bundle, data, steps=1, progress=False, judge=True, adapter_out=tmp_path / "a", test=questions,
                     eval=tmp_path / "eval.jsonl")  # fmt: skip
    asked = [question.shown for question in run.judgement.questions]
    assert len(asked) == len(run.judgement.judged.answers) == 100
    assert asked[0] == "0=" and asked[-1] == "247="


def test_the_best_adapter_is_judged(bundle, files, tmp_path):
    """And the session is that of the last step."""
    data, questions = files
    run = mebp.train(bundle, data, **OPTIONS, keep="best", eval=questions, judge=True, adapter_out=tmp_path / "a")
    session = Session(bundle)
    session.load_adapter(tmp_path / "a")
    losses = [evaluation.eval_loss for evaluation in run.evaluations]
    assert math.isclose(run.judgement.figures["loss"], min(losses), rel_tol=1e-5) and min(losses) < losses[0]


def test_without_room_it_says_the_command(files, tmp_path, capsys):
    data, questions = files
    bundle = make_text_bundle(tmp_path, seq_len=16, batch=1, layers=4, optimizer="sgd", generate_len=512)
    run = mebp.train(bundle, data, steps=1, test=questions, judge=True, adapter_out=tmp_path / "a")
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("not judged: it takes "))
    command = f"mebp judge {bundle} --adapter {tmp_path / 'a'} --data {questions}"
    assert line.endswith(f"; later: {command}") and run.judgement is None
    assert run.session.steps == 1


def test_a_stop_does_not_wait_for_answers(bundle, files, tmp_path, monkeypatch, capsys):
    data, questions = files
    stops = []

    def stop(*given: object, **named: object) -> None:
        named["stage"] = lambda stage, after=named["stage"]: (stops.append(stage), after(stage))
        return judge(*given, **named)

    judge = judging.judge
    monkeypatch.setattr(judging, "judge", stop)
    monkeypatch.setattr("mebp.training.interrupts.Interrupts.pressed", property(lambda self: bool(stops)))
    run = mebp.train(bundle, data, steps=1, test=questions, judge=True, adapter_out=tmp_path / "a")
    assert len(stops) == 1 and run.judgement is None and not run.interrupted
    assert "not judged: the run was stopped; later: mebp judge " in capsys.readouterr().out


def test_a_model_gets_room_for_answers(files, tmp_path, monkeypatch):
    data, questions = files
    models.save(models.build("llama", num_hidden_layers=1), tmp_path / "tiny")
    make_tokenizer(tmp_path / "tiny")
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    run = mebp.train(tmp_path / "tiny", data, steps=1, progress=False, test=questions, judge=True,
                     memory_budget="64MB", adapter_out=tmp_path / "a")  # fmt: skip
    assert run.session.max_positions == len("0=") + 64 and run.judgement is not None


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--test", "q"], "--judge needs --adapter-out DIR, the adapter to judge"),
        (
            ["--adapter-out", "a"],
            "--judge needs --test FILE or --eval FILE, the questions to ask",
        ),
        (
            ["--adapter-out", "a", "--task", "classify", "--test", "q"],
            "--judge is for models that write text; leave it",
        ),
        (["--adapter-out", "a", "--test", "q", "--connect", "x:1", "--plain-text"], "--judge and --connect cannot be"),
    ],
)
def test_what_does_not_go_together(bundle, files, capsys, options, line):
    assert line in refusal_in_process(capsys, "train", bundle, "--data", files[0], "--judge", *options)


def test_what_cannot_be_asked_is_refused_before_the_first_step(bundle, files, tmp_path):
    long = write(tmp_path / "long.jsonl", [QUESTIONS[0], {"prompt": "a" * 40, "completion": "b", "accept": ["b"]}])
    bare = write(tmp_path / "bare.jsonl", [{"prompt": "a", "completion": "b", "accept": []}])
    for path, line, others in (
        (long, "long.jsonl:2: has 40 tokens, and the bundle takes 32 with the answer", {}),
        (long, "long.jsonl:2: has 40 tokens, and the bundle takes 32 with the answer", {"plan_only": True}),
        (bare, "bare.jsonl:1: .accept. is empty, so no answer can be right", {}),
    ):
        with pytest.raises(Error, match=line):
            mebp.train(bundle, files[0], steps=1, progress=False, eval=files[0], test=path, judge=True,
                       adapter_out=tmp_path / "a", **others)  # fmt: skip
    assert not (tmp_path / "a").exists()
