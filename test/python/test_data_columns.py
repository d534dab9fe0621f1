# SPDX-License-Identifier: Apache-2.0
"""Columns of data under the names that mebp reads."""

import json

import pytest

from mebp.cli.main import main
from mebp.data.columns import Columns
from mebp.data.forms import Completion, Conversation
from mebp.data.keeping import tokens_of, were_read
from mebp.data.reading import json_objects, read_samples
from mebp.data.sources import Source
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from mebp.training.options import TrainingOptions
from support.textmodel import make_tokenizer

ASKED = Columns.read("prompt=question,completion=reply")


def write(path, *samples: dict) -> Source:
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return Source.of(path, ASKED)


def refusal(call, *given) -> str:
    with pytest.raises(Error) as caught:
        call(*given)
    return str(caught.value)


def test_columns_of_lines_and_of_a_table(tmp_path):
    lines = write(tmp_path / "data.jsonl", {"question": "a", "reply": "b", "prompt": "other", "id": 3})
    (sample,) = read_samples(lines)
    assert sample == Completion(f"{lines}:1", "a", "b") and sample.unread == {"id"}
    table = tmp_path / "data.csv"
    table.write_text("Question,reply,Answer\na,b,c\n")
    (sample,) = read_samples(Source.of(table, Columns.read("prompt=Question,completion=Answer")))
    assert sample == Completion(f"{table}:2", "a", "c")


def test_names_may_change_places(tmp_path):
    source = Source.of(write(tmp_path / "data.jsonl", {"prompt": "a", "completion": "b"}),
                       Columns.read("prompt=completion,completion=prompt"))  # fmt: skip
    assert read_samples(source) == [Completion(f"{source}:1", "b", "a")]


def test_a_column_that_some_samples_lack(tmp_path):
    source = write(tmp_path / "data.jsonl", {"q": "a", "a": "b"}, {"q": "c", "a": "d", "about": "e"})
    first, second = read_samples(Source.of(source, Columns.read("instruction=q,output=a,input=about")))
    assert isinstance(first, Conversation) and first.messages[0]["content"] == "a"
    assert second.messages[0]["content"] == "c\n\ne"


def test_columns_of_pairs(tmp_path):
    source = write(tmp_path / "data.jsonl", {"q": "a", "good": "b", "bad": "c", "id": 1})
    (entry,) = json_objects(Source.of(source, Columns.read("prompt=q,chosen=good,rejected=bad")))
    assert entry == (f"{source}:1", {"prompt": "a", "chosen": "b", "rejected": "c", "id": 1})


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("prompt", "--columns is 'prompt'; give NAME=COLUMN, or several with commas, such as prompt=question,"
         "completion=answer"),
        ("prompt=,text=a", "--columns is 'prompt=,text=a'; give NAME=COLUMN, or several with commas, such as "
         "prompt=question,completion=answer"),
        ("", "--columns is ''; give NAME=COLUMN, or several with commas, such as prompt=question,completion=answer"),
        ("prompt=a,prompt=b", "--columns prompt=a,prompt=b: has the name 'prompt' twice; keep one"),
        ("prompt=a,text=a", "--columns prompt=a,text=a: has the column 'a' twice; keep one"),
    ],
)  # fmt: skip
def test_what_is_written_wrong_is_refused(written, message):
    assert refusal(Columns.read, written) == message
    assert refusal(lambda: TrainingOptions("a.mebp", "data.txt", columns=written)) == message


def test_names_that_nobody_reads_are_refused():
    told = refusal(Columns.read, "promt=a")
    assert told.startswith("--columns promt=a: 'promt' is no name that mebp reads; choose text, prompt, completion, ")


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (
            [{"question": "a", "answer": "b"}],
            ':1: has no "reply", which --columns reads as "completion" in every file; '
            'the sample has "question" and "answer"',
        ),
        ([{"question": "a", "reply": "b"}, {}],
         ':2: has no "question", which --columns reads as "prompt" in every file; the sample is empty'),
    ],
)  # fmt: skip
def test_samples_without_the_column(tmp_path, samples, message):
    source = write(tmp_path / "data.jsonl", *samples)
    assert refusal(read_samples, source) == f"{source}{message}"


def test_a_column_that_no_sample_has(tmp_path):
    source = write(tmp_path / "data.jsonl", {"q": "a", "a": "b"})
    named = Source.of(source, Columns.read("instruction=q,output=a,input=about"))
    message = f'{source}: no sample has "about", which --columns reads as "input"; the sample has "q" and "a"'
    assert refusal(read_samples, named) == message


def test_plain_text_has_no_columns(tmp_path):
    (tmp_path / "data.txt").write_text("a")
    source = Source.of(tmp_path / "data.txt", ASKED)
    assert refusal(read_samples, source) == f"{source}: is plain text, which has no columns; leave --columns out"


def test_other_columns_are_another_entry_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("mebp.data.keeping._KEPT", 0)
    make_tokenizer(tmp_path / "tokenizer")
    source = write(tmp_path / "data.jsonl", {"question": "a", "reply": "bc", "other": "def"})
    tokens, key = tokens_of(source, Tokenizer(tmp_path))
    assert were_read(source) and not were_read(Source.of(tmp_path / "data.jsonl"))
    others, other = tokens_of(Source.of(source, Columns.read("prompt=question,completion=other")), Tokenizer(tmp_path))
    assert key != other and len(tokens.ids) == 4 and len(others.ids) == 5


def test_all_data_of_a_run_has_them():
    options = TrainingOptions("a.mebp", ["a", "b:0.5"], columns=str(ASKED), eval="c", test="d")
    assert {source.columns for source in (*options.data, *options.measured.values())} == {ASKED}
    assert [str(source) for source in (*options.data, *options.measured.values())] == ["a", "b:0.5", "c", "d"]


@pytest.mark.parametrize(
    "command",
    [["eval", "a.mebp"], ["rollout", "a.mebp", "-o", "b"], ["merge", "a.mebp", "--adapter", "c", "-o", "d"]],
    ids=lambda command: command[0],
)
def test_each_command_with_data_takes_them(tmp_path, capsys, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").touch()
    assert main([*command, "--data", "x", "--columns", "promt=a"]) == 2
    assert capsys.readouterr().err.startswith("mebp: --columns promt=a: 'promt' is no name that mebp reads")
