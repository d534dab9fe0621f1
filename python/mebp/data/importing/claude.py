# SPDX-License-Identifier: Apache-2.0
"""Claude's conversations.json: messages in a row, of text alone or of blocks."""

from collections.abc import Iterator, Mapping

from mebp.data.importing.chats import AGAIN, ASSISTANT, ATTACHED, USER, Chat, checked, named, value_of
from mebp.errors import Error

_AUTHORS = {"human": USER, "user": USER, "assistant": ASSISTANT}
_FILES = ("attachments", "files")


def read(where: str, conversation: Mapping[str, object]) -> Iterator[Chat]:
    where = named(where, conversation.get("name"))
    chat = Chat()
    for index, given in enumerate(value_of(where, conversation, "chat_messages", list)):
        place = f"{where}: chat_messages[{index}]"
        message = checked(place, given, dict)
        sender = value_of(place, message, "sender", str)
        if sender not in _AUTHORS:
            raise Error(f'{place}: "sender" is "{sender}" where human or assistant was expected; {AGAIN}')
        text = _text(place, message)
        chat.add(_AUTHORS[sender], text)
        chat.left_out[ATTACHED] += sum(_count(message.get(key)) for key in _FILES) if text else 0
    yield chat


def _text(where: str, message: Mapping[str, object]) -> str:
    """The blocks of text, without thoughts and tools: "text" has notes in place of those."""
    blocks = message.get("content")
    if not blocks:
        return value_of(where, message, "text", str)
    texts = []
    for index, given in enumerate(checked(f'{where}: "content"', blocks, list)):
        place = f"{where}: content[{index}]"
        block = checked(place, given, dict)
        if block.get("type") == "text":
            texts.append(value_of(place, block, "text", str))
    return "\n".join(texts)


def _count(files: object) -> int:
    return len(files) if isinstance(files, list) else 0
