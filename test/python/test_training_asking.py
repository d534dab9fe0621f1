# SPDX-License-Identifier: Apache-2.0
"""What --ask names: a question, or a file of prompts in each form; and where their answers go."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from mebp.errors import Error
from mebp.report.page import _answered
from mebp.tokenizer import Tokenizer
from mebp.training.asking import ANSWER, bytes_of_answers, prompts_of, tokens_of_asking
from mebp.training.log import ANSWERS, Answer, Evaluation, RunLog, read_log
from mebp.training.options import TrainingOptions
from mebp.training.outputs import check_outputs
from mebp.training.reports import Reports
from mebp.training.request import _Lacking
from support.textmodel import make_tokenizer

TALK = [{"role": "user", "content": "Is it lit?"}, {"role": "assistant", "content": "Yes."}]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("model")
    make_tokenizer(folder / "tokenizer")
    return Tokenizer(folder)


def written(path: Path, *entries: dict) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def asked(tokenizer: Tokenizer, tmp_path: Path, *given: object, talks: bool = False) -> list[tuple[str, str]]:
    data = written(tmp_path / "data.jsonl", {"messages": TALK} if talks else {"prompt": "a", "completion": "b"})
    options = TrainingOptions("a.mebp", str(data), ask=[str(each) for each in given])
    found = prompts_of(options, tokenizer)
    assert tokens_of_asking(options, tokenizer) == max(len(each.ids) for each in found) + ANSWER
    return [(each.text, tokenizer.backend.decode(list(each.ids), skip_special_tokens=False)) for each in found]


def test_a_question_is_put_as_the_data_are(tokenizer, tmp_path):
    assert asked(tokenizer, tmp_path, " Who? ") == [("Who?", "Who?")]
    chat = "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"
    assert asked(tokenizer, tmp_path, "Who?", talks=True) == [("Who?", chat)]


def test_a_file_has_prompts(tokenizer, tmp_path):
    lines = tmp_path / "questions.txt"
    lines.write_text("Who?\n\nWhere?\n")
    chat = "<|im_start|>user\nIs it lit?<|im_end|>\n<|im_start|>assistant\n"
    entries = written(tmp_path / "q.jsonl", {"messages": TALK, "accept": ["Yes"]}, {"prompt": "So"}, {"text": "Then"})
    found = asked(tokenizer, tmp_path, lines, entries, "Why?")
    assert found == [("Who?", "Who?"), ("Where?", "Where?"), ("Is it lit?", chat), ("So", "So"), ("Then", "Then"),
                     ("Why?", "Why?")]  # fmt: skip


def test_a_text_may_be_anything(tokenizer, tmp_path):
    for text in ("Who? " * 100, "~nobody asks", "a\0b", "What is in data.jsonl"):
        assert asked(tokenizer, tmp_path, text)[0][0] == text.strip()


def test_a_file_of_prompts_is_not_overwritten(tmp_path):
    questions = tmp_path / "questions.jsonl"
    questions.write_text("")
    with pytest.raises(Error) as caught:
        check_outputs(TrainingOptions("a.mebp", "b.txt", ask=[str(questions)], log=questions, overwrite=True))
    assert str(caught.value) == (f"--log {questions}: is also --ask {questions}, which would be lost; choose another")


def test_what_cannot_be_asked(tokenizer, tmp_path):
    empty, other = tmp_path / "empty.txt", written(tmp_path / "other.jsonl", {"answer": "b"})
    empty.write_text("\n")
    alone = written(tmp_path / "alone.jsonl", {"messages": TALK[1:]})
    for given, line in (
        ("none.jsonl", "--ask none.jsonl: there is no such file; check the path"),
        (" ", "--ask is empty; give a question, or a file of prompts"),
        (empty, f"--ask {empty}: is empty; write a prompt a line"),
        (other, f'{other}:1: has neither "prompt" nor "messages"; give one of them, or a text with a prompt a line'),
        (alone, f"{alone}:1: nobody asks anything in it; leave it out"),
    ):
        with pytest.raises(Error) as caught:
            asked(tokenizer, tmp_path, given)
        assert str(caught.value) == line
    for options, line in (
        ({"task": "classify"}, "--ask is for models that write text; leave it or --task classify out"),
        ({"connect": "a:1"}, "--ask and --connect cannot be used together: a device's half writes no text; leave one "
                             "out"),
    ):  # fmt: skip
        with pytest.raises(Error) as caught:
            TrainingOptions("a.mebp", "b.txt", ask=["c"], **options)
        assert str(caught.value) == line


@pytest.mark.parametrize("name", ["run.jsonl", "run.csv"])
def test_a_log_has_the_answers(tmp_path, name):
    log = RunLog(tmp_path / name, 0, None, ["margin", *ANSWERS])
    entries = [Evaluation(2, 1.5), Answer(2, "Who?", 'He said "I, 3".'), Answer(2, "Why?", "")]
    for entry in entries:
        log.add(entry)
    log.add(Answer(4, "Who?", "One\nand two."))
    read = read_log(tmp_path / name)
    assert read[:2] == entries[:2]
    assert read[-1].answer == ("One\nand two." if name.endswith("jsonl") else "One and two.")
    again = RunLog(tmp_path / name, 2, None, ["margin", *ANSWERS])
    assert [entry.step for entry in again.entries] == [2] * len(read[:-1])


def test_programs_get_no_answers():
    def fail(entry: object) -> None:
        raise AssertionError(entry)

    said = []
    Reports({"wandb": SimpleNamespace(write=fail)}, said.append).write(Answer(1, "Who?", "I."))
    assert said == []


def test_the_page_has_them():
    page = _answered([Answer(2, "<Who?>", "I & you"), Answer(4, "<Who?>", "They"), Answer(4, "Why?", "")])
    assert page.count("<h3>") == 2 and "<h3>&lt;Who?&gt;</h3>" in page and "I &amp; you" in page


def test_what_a_budget_lacks():
    plan = {"generation": [{"name": "trainables", "bytes": 5}, {"name": "cache", "bytes": 7}, {"name": "workspace",
            "bytes": 3}]}  # fmt: skip
    assert bytes_of_answers(plan) == 7
    lacking = _Lacking(budget=40_000_000, peak=39_000_000, beside=12_000_000)
    assert lacking.rest == "28000000B"
    ends = "are lacking; give a larger --memory-budget, a shorter --generate-len, or leave --ask out"
    assert str(lacking.refusal()) == (
        f"--ask: answers take 12.0 MB and training 39.0 MB, and the budget is 40.0 MB, so 11.0 MB {ends}"
    )
    tried = "a.onnx: this model needs at least 30.50 MB (whole sequences); give that much"
    assert str(lacking.refusal(tried)) == (
        f"--ask: answers take 12.0 MB and training 30.5 MB, and the budget is 40.0 MB, so 2.5 MB {ends}"
    )
    assert str(lacking.refusal("the disk is full")) == "the disk is full"
