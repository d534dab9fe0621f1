# SPDX-License-Identifier: Apache-2.0
"""What ChatGPT, Claude and Telegram export, as messages; and what is not as they write it."""

import json
from collections import Counter

import pytest

from mebp.data.importing.apps import chats_of
from mebp.data.importing.chats import ATTACHED, BEHIND_THE_SCENES, FORWARDED, REPLACED, WITHOUT_TEXT, Chat
from mebp.data.stream import opened
from mebp.errors import Error
from support.chat_exports import HOUR, chatgpt, chatgpt_message, claude, claude_message, telegram, telegram_message


def read(folder, export: object) -> list[Chat]:
    path = folder / "export.json"
    path.write_text(json.dumps(export, indent=1))
    with opened(path) as file:
        return [chat for _, chat in chats_of(path, file)]


def said(chat: Chat) -> list[tuple[str, str]]:
    return [(message.author, message.text) for message in chat.messages if message.text]


def refused(folder, export: object) -> str:
    with pytest.raises(Error) as caught:
        read(folder, export)
    told = str(caught.value).removeprefix(f"{folder}/export.json")
    return told.removesuffix("; export the chat again, or remove it from the file")


def test_chatgpt_the_branch_that_is_shown(tmp_path):
    export = chatgpt(
        *(chatgpt_message("user" if index % 2 == 0 else "assistant", str(index)) for index in range(5)), last=3
    )
    export["mapping"]["node3"]["parent"] = "node0"  # asked anew
    (chat,) = read(tmp_path, [export])
    assert said(chat) == [("user", "0"), ("assistant", "3")]
    assert chat.left_out == Counter({REPLACED: 3})


def test_chatgpt_only_what_was_said(tmp_path):
    message = chatgpt_message
    export = chatgpt(
        message("system", ""),
        message("user", "Custom instructions", kind="user_editable_context"),
        message("user", "hidden", weight=0.0),
        message("user", "hidden", metadata={"is_visually_hidden_from_conversation": True}),
        message("user", "Look:", {"content_type": "image_asset_pointer"}, "there", kind="multimodal_text"),
        message("assistant", "Let me see.", channel="commentary"),
        message("assistant", "search(1)", recipient="browser"),
        message("tool", "found it"),
        message("assistant", "thought", channel="analysis"),
        {**message("assistant"), "content": {"content_type": "thoughts", "thoughts": []}},
        message("assistant", "A cat.", channel="final"),
        message("user", {"content_type": "audio_transcription", "text": "Sure?"}, kind="multimodal_text"),
        message("user", " "),
        message("assistant", "Yes.\n"),
    )
    export["mapping"]["node0"]["message"] = None
    (chat,) = read(tmp_path, [export])
    assert said(chat) == [("user", "Look:\nthere"), ("assistant", "A cat."), ("user", "Sure?"), ("assistant", "Yes.")]
    assert chat.left_out == Counter({BEHIND_THE_SCENES: 6, ATTACHED: 1, WITHOUT_TEXT: 1})


def test_chatgpt_an_empty_conversation(tmp_path):
    (chat,) = read(tmp_path, [chatgpt()])
    assert not chat.messages and not any(chat.left_out.values())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"mapping": []}, ': "mapping" is a list where an object was expected'),
        ({"current_node": None}, ': "current_node" is null where a string was expected'),
        ({"current_node": "x"}, ': has no message "x", which another one follows'),
        ({"mapping": {"node1": 3}}, ': message "node1" is a number where an object was expected'),
        ({"mapping": {"node1": {"parent": 3}}}, ': message "node1": "parent" is a number where a string was expected'),
        (
            {"mapping": {"node1": {"parent": "node0"}, "node0": {"parent": "node1"}}},
            ': message "node1" follows itself, by way of its parents',
        ),
        ({"mapping": {"node1": {"message": "hi"}}}, ': message "node1" is a string where an object was expected'),
        ({"mapping": {"node1": {"message": {}}}}, ': message "node1": has no "author"'),
        (
            {"mapping": {"node1": {"message": chatgpt_message("user", 3)}}},
            ': message "node1": parts[0] is a number where an object was expected',
        ),
        (
            {"mapping": {"node1": {"message": {**chatgpt_message("user"), "content": None}}}},
            ': message "node1": "content" is null where an object was expected',
        ),
    ],
)
def test_chatgpt_refusals(tmp_path, change, told):
    whole = chatgpt(chatgpt_message("user", "a"), chatgpt_message("assistant", "b"))
    assert refused(tmp_path, [whole, whole | change]) == f': conversation 2 ("Trip"){told}'


def test_claude_texts_and_blocks(tmp_path):
    export = claude(
        claude_message("human", "Why?", attachments=[{"extracted_content": "long"}, {}], files=[{}, {}]),
        claude_message(
            "assistant",
            "a note in place of blocks",
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "So."},
            {"type": "tool_use", "name": "x"},
            {"type": "text", "text": "And so."},
        ),
        claude_message("human", "", attachments=[{"extracted_content": "pasted"}]),
        claude_message("human", "", files=[{}]),
    )
    (chat,) = read(tmp_path, [export])
    assert said(chat) == [("user", "Why?\nlong"), ("assistant", "So.\nAnd so."), ("user", "pasted")]
    assert chat.left_out == Counter({ATTACHED: 3, WITHOUT_TEXT: 1})


def test_claude_the_branch_that_is_shown(tmp_path):
    root = "00000000-0000-4000-8000-000000000000"
    export = claude(
        claude_message("human", "a", uuid="1", parent_message_uuid=root),
        claude_message("assistant", "b", uuid="2", parent_message_uuid="1"),
        claude_message("human", "edited", uuid="3", parent_message_uuid=root),
        claude_message("assistant", "c", uuid="4", parent_message_uuid="3"),
    )
    (chat,) = read(tmp_path, [export])
    assert said(chat) == [("user", "edited"), ("assistant", "c")]
    assert chat.left_out == Counter({REPLACED: 2})
    (chat,) = read(tmp_path, [{**export, "current_leaf_message_uuid": "2"}])
    assert said(chat) == [("user", "a"), ("assistant", "b")]
    export["chat_messages"][2]["parent_message_uuid"] = "4"
    assert refused(tmp_path, [export]) == (
        ': conversation 1 ("Trip"): message "4" follows itself, by way of its parents'
    )


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (3, " is a number where an object was expected"),
        ({"sender": "human"}, ': has no "text"'),
        ({"sender": "tool", "text": ""}, ': "sender" is "tool" where human or assistant was expected'),
        ({"sender": "human", "content": "a"}, ': "content" is a string where a list was expected'),
        ({"sender": "human", "text": "", "attachments": 3}, ': "attachments" is a number where a list was expected'),
        ({"sender": "human", "content": [None]}, ": content[0] is null where an object was expected"),
        ({"sender": "human", "content": [{"type": "text"}]}, ': content[0]: has no "text"'),
    ],
)
def test_claude_refusals(tmp_path, message, told):
    export = [claude(), claude(claude_message("human", "a"), message, name="")]
    assert refused(tmp_path, export) == f": conversation 2: chat_messages[1]{told}"


def test_telegram_one_chat(tmp_path):
    said_by = telegram_message
    linked = ["See ", {"type": "link", "text": "a.example"}, "!"]
    old = {key: value for key, value in said_by("Ben", "Old").items() if key != "date_unixtime"}
    export = telegram(
        {"id": 0, "type": "service", "actor": "Ana", "action": "phone_call", "text": ""},
        said_by("Ana", "Hi"),
        said_by("Ben", linked, 2),
        said_by("Ben", "", media_type="sticker"),
        said_by("Ben", "News", forwarded_from="Paper"),
        said_by(None, "Gone"),
        {**said_by(None, "Gone, too"), "from_id": None},
        old,
    )
    (chat,) = read(tmp_path, export)
    assert said(chat) == [
        ("Ana", "Hi"),
        ("Ben", "See a.example!"),
        ("user0", "Gone"),
        ("Deleted Account", "Gone, too"),
        ("Ben", "Old"),
    ]
    assert chat.messages[1].time - chat.messages[0].time == 2 * HOUR
    assert chat.messages[-1].time == chat.messages[0].time  # its date is in UTC
    assert chat.left_out == Counter({WITHOUT_TEXT: 1, FORWARDED: 1})


def test_telegram_an_account(tmp_path):
    one, other, left = (telegram(telegram_message(name, "Hi"), name=name) for name in ("Ana", "Cy", "Di"))
    account = {"about": "", "contacts": {}, "chats": {"list": [one, other]}, "left_chats": {"list": [left]}}
    assert [said(chat) for chat in read(tmp_path, account)] == [[("Ana", "Hi")], [("Cy", "Hi")], [("Di", "Hi")]]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (3, " is a number where an object was expected"),
        ({}, ': has no "type"'),
        (telegram_message("Ana", None), ': "text" is null where a list was expected'),
        (telegram_message("Ana", [3]), ": text[0] is a number where an object was expected"),
        (telegram_message("Ana", [{"type": "bold"}]), ': text[0]: has no "text"'),
        ({**telegram_message("Ana", "a"), "from": [3]}, ': "from" is a list where a string was expected'),
        (
            {**telegram_message("Ana", "a"), "date_unixtime": 3},
            ': "date_unixtime" is a number where a string was expected',
        ),
        ({**telegram_message("Ana", "a"), "date_unixtime": "x"}, ': "date_unixtime" is "x", which is no time'),
        (
            {**telegram_message("Ana", "a"), "date_unixtime": "9" * 400},
            ': "date_unixtime" is "' + "9" * 400 + '", which is no time',
        ),
        ({"type": "message", "from": "Ana", "text": "a", "date": "today"}, ': "date" is "today", which is no time'),
    ],
)
def test_telegram_refusals(tmp_path, message, told):
    export = telegram(telegram_message("Ana", "a"), message)
    assert refused(tmp_path, export) == f' ("Ana"): messages[1]{told}'
    account = {"chats": {"list": [export]}}
    assert refused(tmp_path, account) == f': chats.list[0] ("Ana"): messages[1]{told}'


def test_telegram_an_account_of_another_form(tmp_path):
    assert refused(tmp_path, {"chats": [3]}) == ': "chats" is a list where an object was expected'
    assert refused(tmp_path, {"chats": {"list": [3]}}) == ": chats.list[0] is a number where an object was expected"
