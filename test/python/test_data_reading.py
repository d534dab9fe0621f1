# SPDX-License-Identifier: Apache-2.0
"""Data files: their forms, and a line for each thing that can be wrong."""

import json

import pytest

from mebp.data.forms import Completion, Conversation, Document
from mebp.data.marks import MARKS
from mebp.data.reading import read_samples
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


def test_bytes_that_are_not_utf_8_are_named(tmp_path):
    path = tmp_path / "data.txt"
    path.write_bytes(b"one\ntwo \xff\n")
    with pytest.raises(Error) as caught:
        read_samples(path)
    assert str(caught.value) == f"{path}:2: is not UTF-8 at byte 8 of the file; convert it"


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(Error, match=r"none.txt: cannot be read \(No such file or directory\); check the path"):
        read_samples(tmp_path / "none.txt")


WANTED = (
    'give "text", "prompt" and "completion", "messages", "instruction" and "output", "instruction" and "response", '
    '"question" and "answer", "input" and "output", or "conversations", or name your columns with --columns'
)
PART = '{"type": "text", "text": "..."}'
OBJECTS = "write one object a line, or one array of objects"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "cut', f"is not JSON (a text has no end, column 10); {OBJECTS}"),
        ("[" * 100_000, "is not JSON ("),
        ('"a"', f"is a string; {OBJECTS}"),
        ('["a"]', f"is a string; {OBJECTS}"),
        ('[{"text": "a"}] 1', f"is not JSON (something follows the value, column 17); {OBJECTS}"),
        ("{}", f"is empty; {WANTED}"),
        ({"query": "a", "reply": "b"}, f'has "query" and "reply"; {WANTED}'),
        ({"prompt": "a"}, f'has no "completion"; {WANTED}'),
        ({"completion": "a"}, f'has no "prompt"; {WANTED}'),
        ({"text": "a", "messages": TURNS}, 'has both "text" and "messages"; keep one of them'),
        ({"text": 3}, '"text" is a number; give a string'),
        ({"text": None}, '"text" is null; give a string'),
        ('{"text": "a\\ud800"}', '"text" holds half of a surrogate pair at character 1; correct it'),
        ({"prompt": TURNS[:1], "completion": "b"}, '"prompt" is messages where "completion" is a string; give both'),
        ({"prompt": "a", "completion": TURNS[1:]}, '"completion" is a list; give a string'),
        ({"prompt": TURNS, "completion": TURNS[:1]}, '"completion" has no turn of the assistant, so there is nothing'),
        ({"prompt": "a", "completion": ""}, '"completion" is empty, so there is nothing to learn; leave it out'),
        ({"messages": {}}, '"messages" is an object; give a list of {"role", "content"}'),
        ({"messages": []}, "has no turn of the assistant, so there is nothing to learn; leave it out"),
        ({"messages": TURNS[:1]}, "has no turn of the assistant, so there is nothing to learn; leave it out"),
        ({"messages": TURNS, "tools": {}, "text": 1}, 'has both "messages" and "text"; keep one of them'),
        ({"messages": TURNS, "tools": {"a": 1}}, '"tools" is an object; give a list of objects'),
        ({"messages": TURNS, "tools": ["a"]}, '"tools" is a list of something else; give a list of objects'),
        ({"messages": TURNS, "tools": "[{"}, '"tools" is a string that is not JSON; give a list of objects'),
        ({"messages": [*TURNS, {"role": "tool", "content": None}]}, 'messages[2]: "content" is null; give a string'),
        ({"messages": ["a"]}, 'messages[0] is a string; give {"role", "content"}'),
        ({"messages": [{"role": "user"}]}, 'messages[0] has no "content"; give {"role", "content"}'),
        ({"messages": [*TURNS, {"content": "a"}]}, 'messages[2] has no "role"; give {"role", "content"}'),
        ({"messages": [{"role": "user", "content": True}]}, 'messages[0]: "content" is a truth value; give a string'),
        ({"messages": [{"role": "user", "content": ["a"]}]}, f"messages[0]: content[0] is a string; give {PART}"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "a"}]}]},
            f"messages[0]: content[0] is not {PART}; mebp trains on text alone",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]},
            'messages[0]: content[0]: "text" is',
        ),
        (
            {"messages": [*TURNS, {"role": "human", "content": "a"}]},
            'messages[2] has the role "human"; choose one of system, developer, user, assistant, tool',
        ),
        (
            {"messages": [*TURNS[:1], {**TURNS[1], "weight": 0.5}]},
            'messages[1]: "weight" is 0.5; give 1 to learn it, or',
        ),
        ({"messages": TURNS, "label": 3}, '"label" is 3; give 1 to learn it, or 0 to leave it out'),
        (
            {"messages": [{**TURNS[1], "tool_calls": 3}]},
            'messages[0]: "tool_calls" is a number; give a list of {"name"',
        ),
        (
            {"messages": [{**TURNS[1], "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]},
            'messages[0]: tool_calls[0]: function: "arguments" is a text that is not JSON; give the value itself',
        ),
        (
            {"messages": [{**TURNS[1], "tool_calls": [{"name": "f", "arguments": "[1]"}]}]},
            'messages[0]: tool_calls[0]: "arguments" is a text with a list; give an object',
        ),
        ({"instruction": "a"}, f'has no "output"; {WANTED}'),
        ({"instruction": "a", "output": ""}, '"output" is empty, so there is nothing to learn; leave it out'),
        ({"instruction": "a", "input": 1, "output": "b"}, '"input" is a number; give a string'),
        (
            {"instruction": "a", "output": "b", "history": [["c", "d"]]},
            '"history" is not read; write the conversation as "messages"',
        ),
        ({"question": "a", "answer": "b", "text": "c"}, 'has both "question" and "text"; keep one of them'),
        (
            {"prompt": "a", "chosen": "b", "rejected": "c"},
            'has "chosen" and "rejected", a pair of which one is preferred; train on it with mebp train --objective '
            'dpo or orpo, or keep what is chosen, as "completion"',
        ),
        ({"conversations": "a"}, '"conversations" is a string; give a list of {"from", "value"}'),
        ({"conversations": [{"from": "gpt"}]}, 'conversations[0] has no "value"; give {"from", "value"}'),
        ({"conversations": [{"value": "a"}]}, 'conversations[0] has no "from"; give {"from", "value"}'),
        (
            {"conversations": [{"from": "bot", "value": "a"}]},
            'conversations[0] has the role "bot"; choose one of system, human, user, gpt, assistant, function_call, '
            "tool, observation",
        ),
        (
            {"conversations": [{"from": "function_call", "value": "a"}]},
            'conversations[0]: "value" is a text that is not JSON; give the value itself',
        ),
        (
            {"conversations": [{"from": "function_call", "value": "{}"}]},
            'conversations[0]: "value" is not a call; give {"name", "arguments"}, or a list of them, in JSON',
        ),
        (
            {"conversations": [{"from": "human", "value": "a"}]},
            "has no turn of the assistant, so there is nothing to learn; leave it out",
        ),
    ],
)
def test_a_bad_line_is_refused(tmp_path, line, message):
    assert refusal(tmp_path, line).startswith(f":1: {message}")


def test_one_form_to_a_file(tmp_path):
    assert refusal(tmp_path, "", {"text": "a"}, {"text": "b"}, {"messages": TURNS}) == (
        f':4: has "messages" where {tmp_path}/data.jsonl:2 has "text"; use one form for all samples'
    )
    array = [{"text": "a"}, {"messages": TURNS}]
    assert refusal(tmp_path, json.dumps(array, indent=1)) == (
        f':5: has "messages" where {tmp_path}/data.jsonl:2 has "text"; use one form for all samples'
    )


def test_alpaca_is_a_conversation(tmp_path):
    where = f"{tmp_path}/data.jsonl"
    question, answer = {"role": "user", "content": "Who?"}, {"role": "assistant", "content": "I."}
    in_context = {"role": "user", "content": "Who?\n\nA door."}
    system = {"role": "system", "content": "Be brief."}
    assert read(
        tmp_path,
        {"instruction": "Who?", "output": "I."},
        {"instruction": "Who?", "input": "", "output": "I."},
        {"instruction": "Who?", "input": None, "output": "I."},
        {"instruction": "Who?", "input": "A door.", "output": "I.", "system": "Be brief."},
    ) == [
        Conversation(f"{where}:1", [question, answer]),
        Conversation(f"{where}:2", [question, answer]),
        Conversation(f"{where}:3", [question, answer]),
        Conversation(f"{where}:4", [system, in_context, answer]),
    ]


@pytest.mark.parametrize(
    ("entry", "asked"),
    [
        ({"question": "Who?", "answer": "I.", "level": 3}, "Who?"),
        ({"input": "Who?", "output": "I."}, "Who?"),
        ({"instruction": "Who?", "context": "", "response": "I.", "category": "open_qa"}, "Who?"),
        ({"instruction": "Who?", "context": "A door.", "response": "I.", "text": "### Who?"}, "Who?\n\nA door."),
        ({"instruction": "Who?", "input": "A door.", "output": "I.", "text": "Below is"}, "Who?\n\nA door."),
    ],
)
def test_columns_of_public_tables_are_a_conversation(tmp_path, entry, asked):
    (sample,) = read(tmp_path, entry)
    assert sample.messages == [{"role": "user", "content": asked}, {"role": "assistant", "content": "I."}]
    assert sample.unread == entry.keys() & {"level"}


def test_a_completion_of_messages_is_learned_alone(tmp_path):
    (sample,) = read(tmp_path, {"prompt": [*TURNS, TURNS[0]], "completion": [TURNS[1], TURNS[0], TURNS[1]]})
    assert sample.messages == [*TURNS, *TURNS, *TURNS] and sample.masked == {1}


CALL = {"type": "function", "function": {"name": "mul", "arguments": {"a": 3}}}


@pytest.mark.parametrize(
    "call",
    [
        [CALL],
        json.dumps([CALL]),
        [{"type": "function", "function": {"name": "mul", "arguments": '{"a": 3}'}}],
    ],
)
def test_calls_are_objects_whose_arguments_are_objects(tmp_path, call):
    turn = {"role": "assistant", "content": None, "tool_calls": call}
    (sample,) = read(tmp_path, {"messages": [TURNS[0], turn, {"role": "tool", "content": "6"}]})
    assert sample.messages[1] == {"role": "assistant", "content": None, "tool_calls": [CALL]}
    empty = {"name": "now", "arguments": ""}
    (sample,) = read(tmp_path, {"messages": [TURNS[0], {"role": "assistant", "tool_calls": [empty]}]})
    assert sample.messages[1]["tool_calls"] == [{"name": "now", "arguments": {}}]


def test_calls_of_sharegpt(tmp_path):
    value = json.dumps({"name": "mul", "arguments": {"a": 3}})
    turns = [{"from": "human", "value": "3*18?"}, {"from": "function_call", "value": value}]
    (sample,) = read(tmp_path, {"conversations": [*turns, {"from": "observation", "value": "54"}]})
    assert sample.messages[1:] == [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "54"},
    ]


def test_keys_that_a_table_filled_with_null_are_not_there(tmp_path):
    filled = {"tool_calls": None, "name": None, "weight": None}
    (sample,) = read(tmp_path, {"messages": [{**turn, **filled} for turn in TURNS], "tools": None})
    assert sample == Conversation(f"{tmp_path}/data.jsonl:1", TURNS)


@pytest.mark.parametrize("key", MARKS)
@pytest.mark.parametrize(("unlearned", "learned"), [(0, 1), (False, True), (0.0, 1.0)])
def test_marks_of_turns_and_samples(tmp_path, key, unlearned, learned):
    where = f"{tmp_path}/data.jsonl"
    turns = [*TURNS, TURNS[0], {**TURNS[1], key: unlearned}, TURNS[0], {**TURNS[1], key: learned}]
    plain = [*TURNS, *TURNS, *TURNS]
    shared = [
        {"from": turn["role"], "value": turn["content"], **({key: turn[key]} if key in turn else {})} for turn in turns
    ]
    assert read(
        tmp_path, {"messages": turns}, {"messages": turns, key: unlearned}, {"messages": turns, key: learned}
    ) == [
        Conversation(f"{where}:1", plain, masked=frozenset({3})),
        Conversation(f"{where}:2", plain, masked=frozenset({3}), learned=False),
        Conversation(f"{where}:3", plain, masked=frozenset({3})),
    ]
    (sample,) = read(tmp_path, {"conversations": shared, "system": "Be brief."})
    assert sample.masked == {4}
    assert not read(tmp_path, {"prompt": "a", "completion": "b", key: unlearned})[0].learned
    assert not read(tmp_path, {"text": "a", key: unlearned})[0].learned


def test_a_text_under_a_mark_s_name_is_no_mark(tmp_path):
    (sample,) = read(tmp_path, {"messages": TURNS, "label": "no"})
    assert sample.learned and sample.unread == {"label"}


def test_sharegpt_is_a_conversation(tmp_path):
    where = f"{tmp_path}/data.jsonl"
    turns = [{"from": "human", "value": "Who?"}, {"from": "gpt", "value": "I."}]
    system = {"role": "system", "content": "Be brief."}
    assert read(
        tmp_path,
        {"id": 1, "conversations": turns},
        {"conversations": [{"from": "system", "value": "Be brief."}, *turns]},
        {"conversations": turns, "system": "Be brief."},
        {"conversations": TURNS},
    ) == [
        Conversation(f"{where}:1", TURNS),
        Conversation(f"{where}:2", [system, *TURNS]),
        Conversation(f"{where}:3", [system, *TURNS]),
        Conversation(f"{where}:4", TURNS),
    ]


def test_content_in_parts(tmp_path):
    parts = [{"type": "text", "text": "I"}, {"type": "text", "text": "."}]
    (sample,) = read(tmp_path, {"messages": [TURNS[0], {"role": "assistant", "content": parts}]})
    assert sample.messages == TURNS


SAMPLES = [{"text": "a\n\u2028"}, {"text": "b"}]
LINES = "".join(json.dumps(sample) + "\n" for sample in SAMPLES)


@pytest.mark.parametrize(
    "name", ["data.jsonl", "data.JSON", "data.Jsonl", "data.ndjson", "data.txt", "data", "data.csv.txt"]
)
@pytest.mark.parametrize(
    "content", [LINES, "\ufeff" + LINES, json.dumps(SAMPLES), "\n " + json.dumps(SAMPLES, indent=2)]
)
def test_json_is_known_by_its_name_or_its_beginning(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert [sample.text for sample in read_samples(tmp_path / name)] == ["a\n\u2028", "b"]


def test_one_object_over_several_lines(tmp_path):
    (tmp_path / "data.txt").write_text(json.dumps({"text": "a"}, indent=2))
    assert read_samples(tmp_path / "data.txt") == [Document(f"{tmp_path}/data.txt:1", "a")]


def test_entries_of_an_array_have_their_lines(tmp_path):
    (tmp_path / "data.json").write_text('\n[{"text":\n"a"}, {"text": "b"},\n\n{"text": "c"}\n]')
    lines = [sample.where.rpartition(":")[2] for sample in read_samples(tmp_path / "data.json")]
    assert lines == ["2", "3", "5"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "a"}\nb\n', f":2: is not JSON (a value is missing, column 1); {OBJECTS}"),
        ('[{"text": "a"},\n{"text": "b"},\n]', f":3: is not JSON (a value is missing, column 1); {OBJECTS}"),
        ('[{"text": "a"},\n{"text": "b', f":2: is not JSON (a text has no end, column 10); {OBJECTS}"),
    ],
)
def test_json_of_another_name_that_is_damaged_is_refused(tmp_path, content, message):
    (tmp_path / "data.txt").write_text(content)
    with pytest.raises(Error) as caught:
        read_samples(tmp_path / "data.txt")
    assert str(caught.value) == f"{tmp_path}/data.txt{message}"


@pytest.mark.parametrize(
    "content", ["[1] A note.", "{a} and {b}", 'He said:\n{"text": 1}', "[]", "prompt, completion."]
)
def test_text_stays_text(tmp_path, content):
    (tmp_path / "data.txt").write_text(content)
    assert read_samples(tmp_path / "data.txt") == [Document(str(tmp_path / "data.txt"), content)]


def test_an_array_without_entries_is_refused(tmp_path):
    (tmp_path / "data.json").write_text("[\n]\n")
    with pytest.raises(Error) as caught:
        read_samples(tmp_path / "data.json")
    assert str(caught.value) == f"{tmp_path}/data.json: has no samples; give another file"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{\n"text": "a\xff"}', ":2: is not UTF-8 at byte 12 of the file; convert it"),
        (b'{\n"text":\n"a\0"}', ":3: has a NUL byte at byte 12 of the file, as no text has; give text, or JSON lines"),
    ],
)
def test_bytes_that_one_object_over_lines_cannot_have(tmp_path, content, message):
    path = tmp_path / "data.json"
    path.write_bytes(content)
    with pytest.raises(Error) as caught:
        read_samples(path)
    assert str(caught.value) == f"{path}{message}"
    path.write_bytes(b'\xef\xbb\xbf{\n"text": "a"}')
    assert read_samples(path) == [Document(f"{path}:1", "a")]
