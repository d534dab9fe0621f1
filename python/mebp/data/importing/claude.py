# SPDX-License-Identifier: Apache-2.0
"""Claude's conversations.json: messages of text alone or of blocks, in newer exports each with the one it follows."""

from collections.abc import Iterator, Mapping

from mebp.data.importing.chats import (
    AGAIN,
    ASSISTANT,
    ATTACHED,
    REPLACED,
    USER,
    Chat,
    branch,
    checked,
    named,
    value_of,
)
from mebp.errors import Error

_AUTHORS = {"human": USER, "user": USER, "assistant": ASSISTANT}
_PARENT, _LAST = "parent_message_uuid", "current_leaf_message_uuid"


def read(where: str, conversation: Mapping[str, object]) -> Iterator[Chat]:
    where = named(where, conversation.get("name"))
    given = value_of(where, conversation, "chat_messages", list)
    places = [f"{where}: chat_messages[{index}]" for index in range(len(given))]
    messages = [(place, checked(place, message, dict)) for place, message in zip(places, given, strict=True)]
    chat = Chat()
    shown = _shown(where, messages, conversation.get(_LAST))
    chat.left_out[REPLACED] += len(messages) - len(shown)
    for place, message in shown:
        _add(chat, place, message)
    yield chat


def _shown(where: str, messages: list[tuple[str, dict]], last: object) -> list[tuple[str, dict]]:
    """The branch that ends with the message that the app shows last or, where nothing says which, was written last."""
    if not messages or not all(_PARENT in message for _, message in messages):
        return messages
    found = {value_of(place, message, "uuid", str): (place, message) for place, message in messages}
    last = last if isinstance(last, str) and last in found else messages[-1][1]["uuid"]

    def parent_of(name: str) -> str | None:
        place, message = found[name]
        parent = message[_PARENT]
        if parent is not None:
            checked(f'{place}: "{_PARENT}"', parent, str)
        return parent if parent in found else None  # the first one follows one that is not there

    return [found[name] for name in branch(where, last, parent_of)]


def _add(chat: Chat, where: str, message: Mapping[str, object]) -> None:
    sender = value_of(where, message, "sender", str)
    if sender not in _AUTHORS:
        raise Error(f'{where}: "sender" is "{sender}" where human or assistant was expected; {AGAIN}')
    pasted = _list_of(where, message, "attachments")
    texts = [part.get("extracted_content") for part in pasted]
    text = "\n".join([_text(where, message), *(text for text in texts if isinstance(text, str))])
    chat.add(_AUTHORS[sender], text)
    files = len(_list_of(where, message, "files")) + sum(not isinstance(text, str) for text in texts)
    chat.left_out[ATTACHED] += files if text.strip() else 0


def _text(where: str, message: Mapping[str, object]) -> str:
    """The blocks of text, without thoughts and tools: "text" has notes in place of those."""
    if not message.get("content"):
        return value_of(where, message, "text", str)
    blocks = enumerate(_list_of(where, message, "content"))
    return "\n".join(
        value_of(f"{where}: content[{index}]", block, "text", str)
        for index, block in blocks
        if block.get("type") == "text"
    )


def _list_of(where: str, message: Mapping[str, object], key: str) -> list[dict]:
    """The objects in a list that may be missing."""
    found = checked(f'{where}: "{key}"', message.get(key) or [], list)
    return [checked(f"{where}: {key}[{index}]", each, dict) for index, each in enumerate(found)]
