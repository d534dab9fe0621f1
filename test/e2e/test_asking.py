# SPDX-License-Identifier: Apache-2.0
"""Prompts that a run answers at each evaluation: what it shows, and that it trains the same bits."""

import json
import re
from pathlib import Path

import pytest

import mebp
from mebp import Error
from mebp.inspect import inspect
from mebp.tokenizer import Tokenizer
from mebp.training.asking import Asking
from mebp.training.log import Answer, read_log
from mebp.training.options import TrainingOptions
from support import models
from support.textmodel import make_tokenizer

KEPT = ("trainables", "workspace")  # which a session that trains has already
SAMPLES = [{"prompt": f"{number}:", "completion": " lit"} for number in range(12)]


@pytest.fixture
def samples(tmp_path) -> Path:
    path = tmp_path / "samples.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in SAMPLES))
    return path


def adapter_bytes(folder: Path) -> bytes:
    return (folder / "adapter_model.safetensors").read_bytes()


def test_it_answers_and_trains_the_same_bits(bundle, samples, tmp_path, capsys):
    options = {"epochs": 2, "lr": 5e-2, "keep": "best", "eval": samples, "state": tmp_path / "state"}
    plain = mebp.train(bundle, samples, **options, adapter_out=tmp_path / "plain", progress=False)
    capsys.readouterr()
    run = mebp.train(bundle, samples, **options, overwrite=True, adapter_out=tmp_path / "asked", ask=["3:", "Who?"],
                     log=tmp_path / "run.jsonl")  # fmt: skip
    assert adapter_bytes(tmp_path / "asked") == adapter_bytes(tmp_path / "plain")
    assert [record.loss for record in run.records] == [record.loss for record in plain.records]
    found = [entry for entry in read_log(tmp_path / "run.jsonl") if isinstance(entry, Answer)]
    assert [(entry.step, entry.prompt) for entry in found] == [(6, "3:"), (6, "Who?"), (12, "3:"), (12, "Who?")]
    shown = capsys.readouterr().out.splitlines()
    assert f"  {' '.join(found[2].answer.split())}" == shown[shown.index("step 12/12  3:") + 1]
    kept = mebp.Session(bundle)
    kept.load_adapter(tmp_path / "asked")
    assert [entry for entry in read_log(tmp_path / "asked" / "training.csv") if isinstance(entry, Answer)]


@pytest.mark.parametrize("plan_only", [False, True])
def test_a_run_has_one_tokenizer(bundle, samples, monkeypatch, plan_only):
    """That of a real model takes 12 MB, which would be beyond what the run says that it takes."""
    made = []
    read = Tokenizer.__init__
    monkeypatch.setattr(Tokenizer, "__init__", lambda self, *given: (made.append(given), read(self, *given))[1])
    mebp.train(bundle, samples, steps=1, ask=["Who?"], plan_only=plan_only, progress=False)
    assert len(made) == 1


def test_without_data_to_measure_on_it_answers_as_often(bundle, samples, tmp_path):
    options = {"steps": 5, "eval_every": 2, "state": tmp_path / "state", "log": tmp_path / "run.jsonl", "ask": "Who?"}
    mebp.train(bundle, samples, **options, progress=False, callback=lambda record: record.step == 4)
    mebp.train(bundle, samples, **options, resume=True, progress=False)
    found = [entry.step for entry in read_log(tmp_path / "run.jsonl") if isinstance(entry, Answer)]
    assert found == [2, 4, 5]
    with pytest.raises(Error) as caught:
        mebp.train(bundle, samples, steps=1, ask="Who? " * 9, progress=False)
    assert str(caught.value) == (
        "--ask: has 44 tokens, and the bundle takes 32 with the answer; shorten it, or compile with a longer --seq-len"
    )


def test_ctrl_c_does_not_wait_for_an_answer(bundle, samples):
    asked = []

    def stop() -> bool:
        asked.append(len(asked))
        return len(asked) == 4

    options = TrainingOptions(bundle=bundle, data=[samples], ask=["Who?", "3:"])
    assert not list(Asking(options, mebp.Session(bundle), Tokenizer(bundle)).answers(stop)) and len(asked) == 4


def test_a_budget_has_room_for_answers(samples, tmp_path, monkeypatch, capsys):
    model = tmp_path / "tiny"
    models.save(models.build("llama", num_hidden_layers=1), model)
    make_tokenizer(model)
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    options = {"steps": 1, "optimizer": "sgd", "ask": "Who?", "progress": False}
    run = mebp.train(model, samples, **options, memory_budget="64MB")
    assert run.session.max_positions == 4 + 128
    plan = inspect(run.session.path)["plan"]
    beside = sum(each["bytes"] for each in plan["generation"] if each["name"] not in KEPT)
    line = f"--ask: answers take {beside / 1e6:.2f} MB beside the peak"
    mebp.train(run.session.path, samples, **{**options, "plan_only": True, "progress": True})
    whole = run.session.plan["planned_peak_bytes"] + beside
    assert f"{line}\nthis run: {whole / 1e6:.1f} MB, with" in capsys.readouterr().out
    budget = plan["peak_bytes"] + beside - 1000  # enough for the fastest plan, but not for its answers
    planned = {**options, "memory_budget": f"{budget}B", "plan_only": True, "progress": True}
    mebp.train(model, samples, **planned)
    before, _, last = capsys.readouterr().out.rstrip().rpartition("\n")
    assert last == line
    assert "so another plan is looked for" in before
    tight = mebp.train(model, samples, **options, memory_budget=f"{budget}B").session
    found = float(re.search(r"^  peak +(\d+\.\d\d) MB  all memory", before, re.MULTILINE)[1])
    assert found == round(inspect(tight.path)["plan"]["peak_bytes"] / 1e6, 2) and found * 1e6 + beside < budget + 5000
    assert inspect(tight.path)["plan"]["peak_bytes"] + beside <= budget
    # A bundle is compiled already, and this one's budget is what was left.
    lacking = r"^--ask: answers take [0-9.]+ MB and training [0-9.]+ MB, and the budget is .* MB are lacking; give a "
    for given in (options, {**options, "plan_only": True}):
        with pytest.raises(Error, match=lacking):
            mebp.train(tight.path, samples, **given)
