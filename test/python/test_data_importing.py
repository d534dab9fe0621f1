# SPDX-License-Identifier: Apache-2.0
"""mebp data import: what is written, which turns are learned, what is said, and what is refused."""

import json

import pytest

from mebp.cli import main
from mebp.data.importing import import_chats
from mebp.data.reading import read_samples
from mebp.errors import Error
from support.chat_exports import chatgpt, chatgpt_message, claude, claude_message, telegram, telegram_message
from support.commands import refusal_in_process

SAID = telegram_message
TALK = telegram(SAID("Ana", "Are you there?"), SAID("Ben", "Yes."))


def written(folder, export: object, name: str = "result.json"):
    path = folder / name
    path.write_text(export if isinstance(export, str) else json.dumps(export, indent=1))
    return path


def turns(folder, export: object, learned: str | None = "Ben", **options: object) -> list[list[tuple[str, str]]]:
    """The turns of each conversation, as the data reader has them."""
    import_chats(written(folder, export), folder / "chat.jsonl", learned, **options)
    samples = read_samples(folder / "chat.jsonl")
    assert not any(sample.masked or sample.unread or not sample.learned for sample in samples)
    return [[(turn["role"], turn["content"]) for turn in sample.messages] for sample in samples]


def refused(folder, export: object, learned: str | None = "Ben", **options: object) -> str:
    path = written(folder, export)
    with pytest.raises(Error) as caught:
        import_chats(path, folder / "chat.jsonl", learned, **options)
    assert [each.name for each in folder.iterdir()] == ["result.json"]
    return str(caught.value).removeprefix(str(path))


def test_the_turns_of_one_person_are_the_assistants(tmp_path):
    assert turns(tmp_path, TALK) == [[("user", "Are you there?"), ("assistant", "Yes.")]]


def test_messages_side_by_side_are_one_turn(tmp_path):
    export = telegram(SAID("Ana", "One"), SAID("Ana", "Two"), SAID("Ben", "Three"), SAID("Ben", "Four"))
    assert turns(tmp_path, export) == [[("user", "One\nTwo"), ("assistant", "Three\nFour")]]


def test_what_nobody_asked_and_what_nobody_answered_is_cut_off(tmp_path):
    export = telegram(SAID("Ben", "Hi"), SAID("Ben", "!"), SAID("Ana", "So?"), SAID("Ben", "So."), SAID("Ana", "Oh."))
    assert turns(tmp_path, export) == [[("user", "So?"), ("assistant", "So.")]]
    found = import_chats(tmp_path / "result.json", tmp_path / "chat.jsonl", "Ben", overwrite=True)
    assert found.said_left_out() == [
        "2 messages with which Ben begins a conversation",
        "1 message after the last of Ben in a conversation",
    ]


def test_a_pause_ends_a_conversation(tmp_path):
    export = telegram(SAID("Ana", "a"), SAID("Ben", "b", 6), SAID("Ana", "c", 13), SAID("Ben", "d", 13.5))
    assert turns(tmp_path, export) == [
        [("user", "a"), ("assistant", "b")],
        [("user", "c"), ("assistant", "d")],
    ]
    assert len(turns(tmp_path, export, pause=8, overwrite=True)) == 1
    assert turns(tmp_path, export, pause=5, overwrite=True) == [[("user", "c"), ("assistant", "d")]]


def test_where_several_others_write_each_has_a_name(tmp_path):
    export = telegram(SAID("Ana", "Who comes?"), SAID("Cy", "Me"), SAID("Ben", "I, too"), kind="private_group")
    assert turns(tmp_path, export) == [[("user", "Ana: Who comes?\nCy: Me"), ("assistant", "I, too")]]


def test_a_model_answers_by_default_and_the_user_on_request(tmp_path):
    asked = [chatgpt_message("user", "Why?"), chatgpt_message("assistant", "So."), chatgpt_message("user", "Thanks")]
    assert turns(tmp_path, [chatgpt(*asked)], None) == [[("user", "Why?"), ("assistant", "So.")]]
    assert turns(tmp_path, [chatgpt(*asked)], "user", overwrite=True) == [[("user", "So."), ("assistant", "Thanks")]]
    assert turns(tmp_path, [chatgpt(*asked)], "human", overwrite=True) == [[("user", "So."), ("assistant", "Thanks")]]


def test_what_answers_no_text_is_not_learned(tmp_path):
    sent = {"media_type": "voice_message"}
    export = telegram(
        SAID("Ana", "a"), SAID("Ben", "b"), SAID("Ana", "", **sent), SAID("Ben", "c"), SAID("Ben", "d"),
        SAID("Ana", "", **sent), SAID("Ana", "e"), SAID("Ben", "", **sent), SAID("Ana", "f"), SAID("Ben", "g"),
        SAID("Ana", "A joke", forwarded_from="Cy"), SAID("Ben", "h"),
    )  # fmt: skip
    assert turns(tmp_path, export) == [
        [("user", "a"), ("assistant", "b")],
        [("user", "e\nf"), ("assistant", "g")],
    ]
    found = import_chats(tmp_path / "result.json", tmp_path / "chat.jsonl", "Ben", overwrite=True)
    assert found.said_left_out() == [
        "3 messages without text",
        "1 message that somebody forwarded",
        "2 messages with which Ben begins a conversation",
        "1 conversation in which Ben answers nobody",
    ]


def test_people_of_one_name(tmp_path):
    other = SAID("Ben", "Not I.")
    export = telegram(*TALK["messages"], {**other, "from_id": "user9"}, {**other, "from_id": 9}, SAID("Ana", "Oh."))
    assert refused(tmp_path, export) == (
        f"--as Ben: 2 people in {tmp_path}/result.json have that name; choose one of user9 (2 messages) and "
        "user277 (1 message)"
    )
    export = telegram(SAID("Ana", "a"), SAID("Ben", "b"), {**other, "from_id": "user9"})
    assert turns(tmp_path, export, "user277") == [[("user", "Ana: a"), ("assistant", "b")]]


def test_half_a_surrogate_pair_is_written_as_unknown(tmp_path):
    export = json.dumps(telegram(SAID("Ana", "a?"), SAID("Ben", "b"))).replace("a?", "a\\ud83d")
    assert turns(tmp_path, export) == [[("user", "a\ufffd"), ("assistant", "b")]]


def test_it_says_what_is_learned_what_is_left_out_and_how_to_go_on(tmp_path, capsys):
    export = telegram(*TALK["messages"], SAID("Ana", "", media_type="sticker"), SAID("Ana", "Later", 20))
    output = tmp_path / "new" / "chat.jsonl"
    assert main(["data", "import", str(written(tmp_path, export)), "--as", "Ben", "-o", str(output)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{output}: 1 conversation of Telegram",
        "learned: 1 turn of Ben; what others write is context",
        "left out: 1 message without text, 1 conversation in which Ben answers nobody",
        f"next: mebp train packaged:smollm2 --data {output} --adapter-out adapter",
    ]
    assert output.read_text() == (
        '{"messages": [{"role": "user", "content": "Are you there?"}, {"role": "assistant", "content": "Yes."}]}\n'
    )


def test_whose_turns_of_a_model_are_learned_is_said(tmp_path, capsys):
    path = written(tmp_path, [claude(claude_message("human", "Why?"), claude_message("assistant", "So."))])
    assert main(["data", "import", str(path), "-o", str(tmp_path / "chat.jsonl")]) == 0
    assert "learned: 1 turn of the assistant; what others write is context" in capsys.readouterr().out.splitlines()


def test_a_folder_has_several_exports(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "chats" / name).mkdir(parents=True)
        written(tmp_path / "chats" / name, TALK)
        (tmp_path / "chats" / name / "photo.jpg").write_bytes(b"\xff\xd8\xff")
    written(tmp_path / "chats", "1/2/24, 9:05 - Ana: Hi\n1/2/24, 9:06 - Ben: Hello\n", "WhatsApp Chat with Ana.txt")
    found = import_chats(tmp_path / "chats", tmp_path / "chat.jsonl", "Ben")
    assert (found.apps, found.conversations, found.turns) == (["WhatsApp", "Telegram"], 3, 3)


def test_a_folder_without_one_is_refused(tmp_path):
    with pytest.raises(Error) as caught:
        import_chats(tmp_path, tmp_path / "chat.jsonl")
    assert str(caught.value) == (
        f"{tmp_path}: has no conversations*.json, result*.json, _chat*.txt or *WhatsApp*.txt, as ChatGPT, Claude, "
        "Telegram or WhatsApp export them; give the file itself"
    )


def test_a_name_has_to_be_given_and_to_be_there(tmp_path):
    more = telegram(*TALK["messages"], SAID("Ana", "Good."))
    assert refused(tmp_path, more, None) == (
        ": give --as NAME, whose turns are to be learned; in it are Ana (2 messages) and Ben (1 message)"
    )
    assert refused(tmp_path, more, "ben") == (
        f"--as ben: nobody of that name is in {tmp_path}/result.json; in it are Ana (2 messages) and Ben (1 message)"
    )
    assert refused(tmp_path, [chatgpt(chatgpt_message("user", "Why?"))], "Ana").endswith("in it are user (1 message)")


def test_of_many_names_the_most_frequent_are_shown(tmp_path):
    crowd = telegram(*(SAID(f"P{index:02}", "Hi") for index in range(23)), SAID("P22", "Ho"))
    told = refused(tmp_path, crowd, None)
    assert told.count("message") == 20 and "in it are P22 (2 messages), P00 (1 message), " in told
    assert told.endswith(" and 3 more")


def test_where_nothing_is_to_be_learned_nothing_is_written(tmp_path):
    alone = telegram(SAID("Ben", "Hi"), SAID("Ana", "Hello"))
    assert refused(tmp_path, alone) == (": Ben answers nobody in it, so there is nothing to learn; choose another --as")
    assert refused(tmp_path, telegram()) == ": has no messages; give another export"
    assert refused(tmp_path, [claude()], None) == ": has no messages; give another export"


@pytest.mark.parametrize("pause", [0, -1, float("nan"), float("inf")])
def test_a_pause_is_a_number_of_hours(tmp_path, pause):
    assert refused(tmp_path, TALK, pause=pause) == f"pause is {pause:g}; give a number of hours above 0"


NO_EXPORT = (
    "is not what ChatGPT, Claude, Telegram or WhatsApp export; give conversations.json, result.json or _chat.txt"
)


@pytest.mark.parametrize(
    ("export", "told"),
    [
        ("Dear Ana,\n", f": {NO_EXPORT}"),
        ("", f": {NO_EXPORT}"),
        ("[3]", f": {NO_EXPORT}"),
        ({"messages": [{"role": "user", "content": "a"}]}, f": {NO_EXPORT}"),
        ([claude(), {"name": "b"}], f": entry 2: {NO_EXPORT}"),
        ('{"chats": ', ":1: is not JSON (a value is missing, column 11); export the chats again"),
        ('[{"mapping": {}},', ":1: is not JSON (a value is missing, column 18); export the chats again"),
        ("PK\x03\x04", ": is a zip archive, or a document in one; unpack it, and give the file in it, or save the "
         "document as text"),
        ("[" * 100_000, ":1: is not JSON (nested too deep); export the chats again"),
    ],
)  # fmt: skip
def test_what_is_no_export_is_refused(tmp_path, export, told):
    assert refused(tmp_path, export) == told


def test_a_file_that_is_there_is_kept(tmp_path, capsys):
    path, output = written(tmp_path, TALK), tmp_path / "chat.jsonl"
    command = ["data", "import", path, "--as", "Ben", "-o", output]
    output.write_text("mine")
    assert refusal_in_process(capsys, *command, "--overwrite") == (
        f"mebp: -o {output}: exists and is not a file of mebp data import; choose another\n"
    )
    assert output.read_text() == "mine"
    output.unlink()
    assert main(list(map(str, command))) == 0
    capsys.readouterr()
    assert refusal_in_process(capsys, *command) == (
        f"mebp: -o {output}: exists already; add --overwrite to replace it or choose another\n"
    )
    assert main([*map(str, command), "--overwrite"]) == 0
    capsys.readouterr()
    told = refusal_in_process(capsys, *command[:-1], path, "--overwrite")
    assert told == f"mebp: -o {path}: is also {path}, which would be lost; choose another\n"


def test_a_folder_with_a_wrong_file_changes_nothing(tmp_path):
    written(tmp_path, TALK)
    written(tmp_path, "?", "result2.json")
    with pytest.raises(Error, match="result2.json: is not what"):
        import_chats(tmp_path, tmp_path / "out" / "chat.jsonl", "Ben")
    assert not (tmp_path / "out").exists()
