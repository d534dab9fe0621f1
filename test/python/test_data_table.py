# SPDX-License-Identifier: Apache-2.0
"""Tables: a row is a sample by its columns."""

import pytest

from mebp.data.forms import Completion, Conversation, Document
from mebp.data.reading import SampleFiles, json_objects, read_samples
from mebp.data.sources import Source
from mebp.data.splits import data_files, find_splits
from mebp.errors import Error


def read(tmp_path, content: str, name: str = "data.csv") -> list:
    (tmp_path / name).write_bytes(content.encode())
    return read_samples(tmp_path / name)


def refusal(tmp_path, content: str, name: str = "data.csv") -> str:
    with pytest.raises(Error) as caught:
        read(tmp_path, content, name)
    return str(caught.value).removeprefix(f"{tmp_path / name}")


def test_quotes_line_ends_and_delimiters_in_fields(tmp_path):
    where = f"{tmp_path}/data.csv"
    content = '\ufeffprompt,completion\r\n"a, b","say ""c""\r\nd"\r\n\r\n e ,f;\u2028g\r\n'
    assert read(tmp_path, content) == [
        Completion(f"{where}:2", "a, b", 'say "c"\r\nd'),
        Completion(f"{where}:5", " e ", "f;\u2028g"),
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("data.csv", "question,answer\nWho?,I.\n"),
        ("data.CSV", "question;answer\nWho?;I.\n"),
        ("data.tsv", "question\tanswer\nWho?\tI.\n"),
        ("data.txt", '"Question", "Answer"\r\n"Who?","I."\r\n'),
        ("data", "instruction\tinput\toutput\nWho?\t\tI."),
        ("data.csv", ",QUESTION,Answer\n0,Who?,I.\n"),
    ],
)
def test_a_table_by_its_name_or_its_columns(tmp_path, name, content):
    (sample,) = read(tmp_path, content, name)
    turns = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "I."}]
    assert sample == Conversation(f"{tmp_path / name}:2", turns)


def test_one_column(tmp_path):
    assert read(tmp_path, 'text\n"a,b"\nc\n') == [
        Document(f"{tmp_path}/data.csv:2", "a,b"),
        Document(f"{tmp_path}/data.csv:3", "c"),
    ]


def test_columns_that_nobody_reads_are_known(tmp_path):
    (sample,) = read(tmp_path, "prompt,completion,source\na,b,c\n")
    assert sample.unread == {"source"}


@pytest.mark.parametrize(("written", "learned"), [("0", False), ("False", False), ("1.0", True), ("TRUE", True)])
def test_marks_of_rows(tmp_path, written, learned):
    (sample,) = read(tmp_path, f"prompt,completion,train\na,b,{written}\n")
    assert sample.learned == learned and not sample.unread


def test_pairs(tmp_path):
    (tmp_path / "data.csv").write_text("prompt,chosen,rejected\na,b,c\n")
    where = f"{tmp_path}/data.csv:2"
    assert list(json_objects(tmp_path / "data.csv")) == [(where, {"prompt": "a", "chosen": "b", "rejected": "c"})]


QUOTES = (
    "has a quote that is not closed, text behind a closing quote, or a bare carriage return; write fields with quotes "
    'or line ends in them as "...", with "" for each quote'
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ": has no text; give another file"),
        ("prompt,completion\n", ": has no samples; give another file"),
        ("prompt,completion\n\na,b,c\n", ":3: has 3 fields where the header has 2; put quotes around fields that have "
         "',' in them"),
        ('prompt,completion\n"a\n\nb",c\nd\n', ":5: has 1 fields where the header has 2; put quotes around fields that "
         "have ',' in them"),
        ('prompt,completion\na,b\n"c,d\n', f":3: {QUOTES}"),
        ('prompt,completion\n"a"b,c\n', f":2: {QUOTES}"),
        ("prompt,completion\ra,b\r", f":1: {QUOTES}"),
        ("prompt,Prompt\na,b\n", ':1: has two columns "prompt"; rename one'),
        ("prompt,completion\na,\n", ':2: "completion" is empty, so there is nothing to learn; leave it out'),
    ],
)  # fmt: skip
def test_a_bad_table_is_refused(tmp_path, content, message):
    assert refusal(tmp_path, content) == message


def test_columns_of_no_form(tmp_path):
    assert refusal(tmp_path, "ask,reply\na,b\n").startswith(':2: has "ask" and "reply"; give "text", "prompt" and')


def test_a_folder_of_texts_and_one_of_tables(tmp_path):
    for name, text in (("b.md", "# B"), ("a.txt", "A"), ("README.md", "about")):
        (tmp_path / name).write_text(text)
    assert [sample.text for sample in SampleFiles(Source(tmp_path))] == ["A", "# B"]
    (tmp_path / "tables").mkdir()
    for name in ("b.tsv", "a.csv"):
        (tmp_path / "tables" / name).write_text(f"text\n{name}\n")
    assert [sample.text for sample in SampleFiles(Source(tmp_path / "tables"))] == ["a.csv", "b.tsv"]


def test_splits_that_are_tables(tmp_path):
    for name in ("train.csv", "valid.csv", "test.tsv"):
        (tmp_path / name).write_text("text\na\n")
    assert {option: file.name for option, file in find_splits(tmp_path).items()} == {
        "data": "train.csv",
        "eval": "valid.csv",
        "test": "test.tsv",
    }
    assert [file.name for file in data_files(tmp_path)] == ["train.csv"]
