# SPDX-License-Identifier: Apache-2.0
"""Data files: their forms, and a line for each thing that can be wrong."""

import json

import pytest

from mebp.data.reading import Completion, Conversation, Document, read_samples
from mebp.errors import Error

TURNS = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "I."}]


def read(tmp_path, *lines: object) -> list:
    path = tmp_path / "data.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return read_samples(path)


def refusal(tmp_path, *lines: object) -> str:
    with pytest.raises(Error) as caught:
        read(tmp_path, *lines)
    return str(caught.value).removeprefix(f"{tmp_path}/data.jsonl")


def test_each_form(tmp_path):
    where = f"{tmp_path}/data.jsonl"
    assert read(tmp_path, {"text": "a", "id": 3}, "", {"text": ""}) == [
        Document(f"{where}:1", "a"),
        Document(f"{where}:3", ""),
    ]
    assert read(tmp_path, {"prompt": "", "completion": "b"}) == [Completion(f"{where}:1", "", "b")]
    assert read(tmp_path, {"messages": TURNS}) == [Conversation(f"{where}:1", TURNS)]


def test_plain_text_is_one_document(tmp_path):
    path = tmp_path / "data.txt"
    path.write_bytes(b"\xef\xbb\xbfa\n{\n")
    assert read_samples(path) == [Document(str(path), "a\n{\n")]


def test_a_line_ends_only_where_it_ends(tmp_path):
    (sample,) = read(tmp_path, json.dumps({"text": "a\u2028b\x85c"}, ensure_ascii=False) + "\r")
    assert sample.text == "a\u2028b\x85c"


@pytest.mark.parametrize("content", [b"", b" \n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["data.txt", "data.jsonl"])
def test_an_empty_file_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Error) as caught:
        read_samples(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: has no text; give another file"


def test_bytes_that_are_no_utf_8_are_named(tmp_path):
    path = tmp_path / "data.txt"
    path.write_bytes(b"one\ntwo \xff\n")
    with pytest.raises(Error) as caught:
        read_samples(path)
    assert str(caught.value) == f"{path}:2: is not UTF-8 at byte 8 of the file; convert it"


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(Error, match=r"none.txt: cannot be read \(No such file or directory\); check the path"):
        read_samples(tmp_path / "none.txt")


WANTED = 'give "text", "prompt" and "completion", or "messages"'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "cut', "is not JSON (Unterminated string starting at: line 1 column 10 (char 9)); write one object"),
        ("[" * 100_000, "is not JSON ("),
        ('["a"]', "is a list; write one object a line"),
        ("{}", f"is empty; {WANTED}"),
        ({"question": "a", "answer": "b"}, f'has "question" and "answer"; {WANTED}'),
        ({"prompt": "a"}, f'has no "completion"; {WANTED}'),
        ({"completion": "a"}, f'has no "prompt"; {WANTED}'),
        ({"text": "a", "messages": TURNS}, 'has both "text" and "messages"; keep one of them'),
        ({"text": 3}, '"text" is a number; give a string'),
        ({"text": None}, '"text" is null; give a string'),
        ('{"text": "a\\ud800"}', '"text" holds half of a surrogate pair at character 1; mend it'),
        ({"prompt": ["a"], "completion": "b"}, '"prompt" is a list; give a string'),
        ({"prompt": "a", "completion": ""}, '"completion" is empty, so there is nothing to learn; leave the line out'),
        ({"messages": {}}, '"messages" is an object; give a list of {"role", "content"}'),
        ({"messages": []}, "has no turn of the assistant, so there is nothing to learn; leave the line out"),
        ({"messages": TURNS[:1]}, "has no turn of the assistant, so there is nothing to learn; leave the line out"),
        ({"messages": TURNS, "tools": [{}]}, '"tools" is not in this build; write them into the system\'s turn'),
        ({"messages": ["a"]}, 'messages[0] is a string; give {"role", "content"}'),
        ({"messages": [{"role": "user"}]}, 'messages[0] has no "content"; give {"role", "content"}'),
        ({"messages": [*TURNS, {"content": "a"}]}, 'messages[2] has no "role"; give {"role", "content"}'),
        ({"messages": [{"role": "user", "content": True}]}, 'messages[0]: "content" is a truth value; give a string'),
        (
            {"messages": [*TURNS, {"role": "human", "content": "a"}]},
            'messages[2] has the role "human"; choose one of system, user, assistant, tool',
        ),
    ],
)
def test_a_bad_line_is_refused(tmp_path, line, message):
    assert refusal(tmp_path, line).startswith(f":1: {message}")


def test_one_form_to_a_file(tmp_path):
    assert refusal(tmp_path, "", {"text": "a"}, {"text": "b"}, {"messages": TURNS}) == (
        ':4: has "messages" where line 2 has "text"; keep to one of them'
    )
