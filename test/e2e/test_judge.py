# SPDX-License-Identifier: Apache-2.0
"""`mebp judge`: its figures are those of a session that is asked one thing at a time, and a gate decides the status."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp import Session
from mebp.cli import main
from mebp.judging import GENERAL
from mebp.tokenizer import Tokenizer
from support.commands import refusal_in_process
from support.textmodel import make_text_bundle

TAUGHT = [{"prompt": f"{letter}=", "completion": f"{number}"} for number, letter in enumerate("abcd")]
GENERAL_TEXT = [
    {"kind": "fact", "text": "The lamp is lit."},
    {"kind": "fact", "text": "Ice floats on water, since it is lighter than the water whose place it takes."},
    {"kind": "code", "text": "x = 1"},
]


ALONE = ["--no-published"]  # which is quicker


def write(path: Path, entries: list[dict]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with a bundle, an adapter that has learned TAUGHT, questions about it, and other text."""
    folder = tmp_path_factory.mktemp("judge")
    bundle = make_text_bundle(folder, seq_len=48, batch=2, layers=1)
    data = write(folder / "data.jsonl", TAUGHT)
    mebp.train(bundle, data, epochs=150, lr=2e-2, progress=False, adapter_out=folder / "adapter")
    asked = [{**sample, "accept": [sample["completion"]]} for sample in TAUGHT[:3]]
    write(folder / "questions.jsonl", [*asked, {"prompt": "d =", "match": {"exact": "9"}}])
    write(folder / "general.jsonl", GENERAL_TEXT)
    return folder


def arguments_of(folder: Path, *more: object, adapter: bool = True) -> list[object]:
    given = ["judge", folder / "model.mebp", "--data", folder / "questions.jsonl", "--also", folder / "general.jsonl"]
    return [*given, *(["--adapter", folder / "adapter"] if adapter else []), *ALONE, "--max-new-tokens", 3, *more]


def judged(capsys, *arguments: object, status: int = 0) -> dict:
    assert main([*map(str, arguments), "--json"]) == status
    return json.loads(capsys.readouterr().out)


def loss_of(session: Session, rows: list[tuple[list[int], int]]) -> float:
    """Over what follows the first tokens of each row, a row at a time."""
    total = count = 0
    for ids, first in rows:
        labels = np.array([[-100] * first + ids[first:]])
        counted = len(ids) - max(first, 1)
        total, count = total + session.loss([ids], labels) * counted, count + counted
    return total / count


def test_figures_are_those_of_a_session_that_is_asked_one_by_one(trained, capsys):
    found = judged(capsys, *arguments_of(trained))
    tokenizer = Tokenizer(trained / "model.mebp")
    session = Session(trained / "model.mebp")
    answered = [(f"{sample['prompt']}", sample["completion"]) for sample in TAUGHT[:3]] + [("d =", "9")]
    for prefix in ("base_", ""):
        rows = [
            ([*tokenizer.encode(prompt), *tokenizer.encode(answer), tokenizer.end_of_sequence],
             len(tokenizer.encode(prompt)))
            for prompt, answer in answered
        ]  # fmt: skip
        texts = [tokenizer.encode(each["text"]) for each in GENERAL_TEXT]
        general = [(ids[start : start + 48], 0) for ids in texts for start in range(0, len(ids), 48)]
        texts = []
        for prompt, _ in answered:
            ids = tokenizer.encode(prompt)
            written = session.generate([ids], 3, tokenizer.stop_tokens)[0, len(ids) :].tolist()
            texts.append(tokenizer.decode([each for each in written if each not in tokenizer.stop_tokens]).strip())
        right = [answer in text for text, (_, answer) in zip(texts, answered, strict=True)]

        figures = found["figures"]
        assert math.isclose(figures[f"{prefix}loss"], loss_of(session, rows), rel_tol=1e-5)
        assert math.isclose(figures[f"{prefix}perplexity"], math.exp(figures[f"{prefix}loss"]), rel_tol=1e-9)
        assert math.isclose(figures[f"{prefix}general_loss"], loss_of(session, general), rel_tol=1e-5)
        general_perplexity = figures[f"{prefix}general_perplexity"]
        assert math.isclose(general_perplexity, math.exp(figures[f"{prefix}general_loss"]), rel_tol=1e-9)
        assert figures[f"{prefix}right"] == sum(right) / 4
        given = [each["base"] if prefix else each for each in found["answers"]]
        assert [each["answer"] for each in given] == texts and [each["right"] for each in given] == right
        session.load_adapter(trained / "adapter")
    assert figures["right"] == 0.75 > figures["base_right"]
    assert figures["forgets"] == figures["general_loss"] / figures["base_general_loss"] - 1 > 0
    assert set(found["general"]) == {"fact", "code"}
    assert judged(capsys, *arguments_of(trained)) == found, "two calls differ"


def test_eval_finds_the_same_loss(trained, capsys):
    data = ["--data", trained / "data.jsonl", "--adapter", trained / "adapter"]
    measured = judged(capsys, "eval", trained / "model.mebp", *data)["loss"]
    assert math.isclose(
        judged(capsys, "judge", trained / "model.mebp", *data)["figures"]["loss"], measured, rel_tol=1e-5
    )


def test_the_likeliest_choice_is_the_answer(trained, capsys):
    questions = [{"prompt": "a=", "choices": ["3", "0", "no"], "answer": "0"},
                 {"prompt": "b=", "choices": ["0", "2", "5"], "answer": 2}]  # fmt: skip
    path = write(trained / "choices.jsonl", questions)
    given = ["judge", trained / "model.mebp", "--adapter", trained / "adapter", "--data", path, "--also", "none"]
    found = judged(capsys, *given, *ALONE)
    tokenizer, session = Tokenizer(trained / "model.mebp"), Session(trained / "model.mebp")
    session.load_adapter(trained / "adapter")
    for question, answer in zip(questions, found["answers"], strict=True):
        prompt = tokenizer.encode(question["prompt"])
        likelihoods = []
        for choice in question["choices"]:
            ids = np.array([[*prompt, *tokenizer.encode(choice)]])
            likelihoods.append(session.logprobs(ids)[0, len(prompt) - 1 :].sum())
        assert answer["answer"] == question["choices"][int(np.argmax(likelihoods))]
    assert [each["right"] for each in found["answers"]] == [1, 0]
    assert found["figures"]["forgets"] is None


def test_the_folder_of_an_adapter_alone_says_what_it_was_trained_on(trained, capsys):
    data = ["--data", trained / "questions.jsonl", "--also", "none"]
    whole = judged(capsys, "judge", trained / "model.mebp", "--adapter", trained / "adapter", *data, *ALONE)
    assert judged(capsys, "judge", trained / "adapter", *data, *ALONE) == whole


def test_a_gate_decides_the_status(trained, capsys):
    assert judged(capsys, *arguments_of(trained, "--gate", "right>=0.75,forgets<=1e9"))["gate"] == [
        {"condition": "right>=0.75", "holds": True},
        {"condition": "forgets<=1e+09", "holds": True},
    ]
    found = judged(capsys, *arguments_of(trained, "--gate", "right>0.75,base_right<0.5"), status=1)
    assert [each["holds"] for each in found["gate"]] == [False, True]
    assert main([*map(str, arguments_of(trained, "--gate", "right>0.75"))]) == 1
    assert "gate right>0.75: 0.7500, fails\n" in capsys.readouterr().out


def test_a_table_and_a_page(trained, tmp_path, capsys):
    write(trained / "marked.jsonl", [{"prompt": "a=", "completion": "0", "accept": ["0"], "note": "<b>"}])
    page = tmp_path / "page.html"
    given = ["judge", trained / "model.mebp", "--adapter", trained / "adapter", "--data", trained / "marked.jsonl",
             "--also", trained / "general.jsonl", "--gate", "right>0", "--html", page]  # fmt: skip
    assert main([*map(str, given)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 of 1 answer right, 0 without the adapter\n")
    table, served = said.partition("stored weights, int4 ")[::2]
    losses = {name: float(table.split(f"  {name} ")[1].split()[number]) for number, name in ((1, "loss"),)}
    assert float(served.split()[1]) == pytest.approx(losses["loss"], abs=2e-3) and "published weights, f32 " in served
    assert "\n  > a=\n  - " in said and "\n  + 0 (right)\n" in said and "gate right>0: 1.0000, holds" in said
    written = page.read_text()
    for part in ("1 of 1 answer right", "Answers that changed most", "<b>right</b> 0", "General text", "holds"):
        assert part in written, part
    assert "Where it is served" in written and "published weights, f32" in written
    page.write_text("somebody's own")
    assert f"--html {page}: exists and is not a page of mebp" in refusal_in_process(capsys, *given)


def test_published_weights_that_are_gone_are_said(trained, tmp_path, capsys):
    given = ["judge", trained / "model.mebp", "--adapter", trained / "adapter", "--data", trained / "questions.jsonl",
             "--also", "none", "--base", tmp_path / "gone"]  # fmt: skip
    assert main([*map(str, given)]) == 0
    found = capsys.readouterr()
    assert "\nthe published weights were not measured: " in found.out and str(tmp_path / "gone") in found.out
    assert "\nstored weights, int4 " in found.out


def test_text_of_the_model_is_no_markup(trained, tmp_path, capsys):
    question = write(tmp_path / "questions.jsonl", [{"prompt": "<i>a</i>", "accept": ["0"]}])
    page = tmp_path / "page.html"
    given = ["judge", trained / "model.mebp", "--data", question, "--also", "none", "--html", page]
    assert main([*map(str, given)]) == 0
    assert "&lt;i&gt;a&lt;/i&gt;" in page.read_text() and "<i>" not in page.read_text()


def test_without_an_adapter_the_model_alone_is_measured(trained, capsys):
    found = judged(capsys, *arguments_of(trained, adapter=False))
    assert found["figures"]["base_loss"] is None and found["figures"]["loss"] > 0
    assert "base" not in found["answers"][0]


def test_a_function_judges(trained, tmp_path, capsys):
    module = tmp_path / "judges.py"
    module.write_text(
        "def half(completions, accept, **columns):\n"
        "    return [0.5 if each and words else 0 for each, words in zip(completions, accept)]\n"
        "def twice(completions, **columns):\n    return [2 for _ in completions]\n"
        "def missing(completions, name):\n    return [1 for _ in completions]\n"
    )
    found = judged(capsys, *arguments_of(trained, "--reward", f"{module}:half"))
    assert {each["right"] for each in found["answers"]} <= {0, 0.5} and found["figures"]["right"] > 0
    told = refusal_in_process(capsys, *arguments_of(trained, "--reward", f"{module}:twice"))
    assert "questions.jsonl:1; to judge, give a number from 0, wrong, to 1, right" in told
    assert 'needs a column "name"' in refusal_in_process(
        capsys, *arguments_of(trained, "--reward", f"{module}:missing")
    )


def test_refusals(trained, tmp_path, capsys):
    def refused(*more: object, adapter: bool = True) -> str:
        return refusal_in_process(capsys, *arguments_of(trained, *more, adapter=adapter))

    assert "'wrong' is not a figure; choose right, forgets, loss" in refused("--gate", "wrong<1")
    assert "'=' is not a comparison" in refused("--gate", "right=1")
    assert "compares with and without an adapter; give --adapter" in refused("--gate", "forgets<1", adapter=False)
    assert "needs --reward" in refused("--reward-timeout", 3)
    assert "--max-new-tokens is 0" in refusal_in_process(capsys, *arguments_of(trained)[:-1], 0)
    for entry, line in (
        ({"prompt": "a=", "accept": []}, ':2: "accept" is empty'),
        ({"prompt": "a" * 60, "accept": ["0"]}, ":2: has 60 tokens, and the bundle takes 48 with the answer"),
        ({"prompt": "a=", "choices": ["0", "1" * 60], "answer": 0}, ":2: has 62 tokens with its longest choice"),
    ):
        path = write(tmp_path / "questions.jsonl", [{"prompt": "a=", "accept": ["0"]}, entry])
        assert line in refusal_in_process(capsys, "judge", trained / "model.mebp", "--data", path), line
    path = write(tmp_path / "questions.jsonl", [{"prompt": "a=", "completion": "0"}])
    given = ["judge", trained / "model.mebp", "--data", path, "--also", "none"]
    assert "no sample says what is right" in refusal_in_process(capsys, *given, "--gate", "right>0")
    assert "--also none leaves general text out" in refusal_in_process(
        capsys, *given, "--adapter", trained / "adapter", "--gate", "forgets<1"
    )


def test_ctrl_c_leaves_nothing(trained, tmp_path, monkeypatch, capsys):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "generate", interrupt)
    assert main([*map(str, arguments_of(trained, "--html", tmp_path / "page.html"))]) == 130
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr().out == ""


def test_general_text_is_of_many_kinds():
    entries = [json.loads(line) for line in GENERAL.read_text(encoding="utf-8").splitlines()]
    assert len({entry["text"] for entry in entries}) == len(entries) == 200
    assert len(kinds := Counter(entry["kind"] for entry in entries)) == 20 and set(kinds.values()) == {10}
    taught = " ".join(path.read_text(encoding="utf-8") for path in Path("examples").glob("*.jsonl"))
    assert not any(word in entry["text"] for entry in entries for word in ("Brindle", "Marit")) and "Brindle" in taught


def test_a_thought_is_not_the_answer(trained, tmp_path, monkeypatch, capsys):
    tokenizer = Tokenizer(trained / "model.mebp")
    thought = [*tokenizer.encode("<think>7</think> 8"), tokenizer.end_of_sequence]
    monkeypatch.setattr(
        Session, "generate", lambda self, ids, *_: np.array([[*prompt, *thought] for prompt in ids], np.int64)
    )
    questions = [{"prompt": "a=", "accept": ["7"]}, {"prompt": "a=", "match": {"exact": "8"}}]
    given = ["--data", write(tmp_path / "questions.jsonl", questions), "--also", "none"]
    found = judged(capsys, "judge", trained / "model.mebp", *given)
    assert [each["right"] for each in found["answers"]] == [0, 1]
