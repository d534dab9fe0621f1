# SPDX-License-Identifier: Apache-2.0
"""ChatGPT's conversations.json: trees of messages, since a question may be asked and answered anew."""

from collections.abc import Iterator, Mapping

from mebp.data.importing.chats import (
    AGAIN,
    ASSISTANT,
    ATTACHED,
    BEHIND_THE_SCENES,
    REPLACED,
    USER,
    Chat,
    branch,
    checked,
    named,
    value_of,
)
from mebp.errors import Error

_TEXTS = ("text", "multimodal_text")
_SPOKEN = "audio_transcription"  # a part that is what somebody said
_TO_READERS = ("all", None)  # other recipients are tools


def read(where: str, conversation: Mapping[str, object]) -> Iterator[Chat]:
    """The branch that the app shows last."""
    where = named(where, conversation.get("title"))
    mapping = value_of(where, conversation, "mapping", dict)
    last = conversation.get("current_node")
    chat, shown = Chat(), []
    if mapping or last is not None:

        def parent_of(name: str) -> str | None:
            parent = _node(where, mapping, name).get("parent")
            return None if parent is None else checked(f'{where}: message "{name}": "parent"', parent, str)

        shown = branch(where, checked(f'{where}: "current_node"', last, str), parent_of)
    for name in shown:
        message = mapping[name].get("message")
        if message is not None:
            place = f'{where}: message "{name}"'
            _add(chat, place, checked(place, message, dict))
    others = mapping.keys() - shown
    chat.left_out[REPLACED] += sum(_node(where, mapping, name).get("message") is not None for name in others)
    yield chat


def _node(where: str, mapping: Mapping[str, object], name: str) -> dict:
    if name not in mapping:
        raise Error(f'{where}: has no message "{name}", which another one follows; {AGAIN}')
    return checked(f'{where}: message "{name}"', mapping[name], dict)


def _add(chat: Chat, where: str, message: Mapping[str, object]) -> None:
    metadata = message.get("metadata")
    if message.get("weight") == 0 or (
        isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation")
    ):
        return  # the app does not show it
    role = value_of(f"{where}: author", value_of(where, message, "author", dict), "role", str)
    text, others = _content(where, message)
    if role in (ASSISTANT, USER) and text is not None and _is_answer(message):
        chat.add(role, text)
        chat.left_out[ATTACHED] += others if text else 0
    elif text != "":
        chat.left_out[BEHIND_THE_SCENES] += 1


def _is_answer(message: Mapping[str, object]) -> bool:
    return message.get("recipient") in _TO_READERS and message.get("channel") in ("final", None)


def _content(where: str, message: Mapping[str, object]) -> tuple[str | None, int]:
    """The text, or None where the content is of another kind, and the number of parts that are no text."""
    content = value_of(where, message, "content", dict)
    if content.get("content_type") not in _TEXTS:
        return None, 0
    parts = value_of(where, content, "parts", list)
    texts = [
        part if isinstance(part, str) else _said(f"{where}: parts[{index}]", part) for index, part in enumerate(parts)
    ]
    return "\n".join(text for text in texts if text), texts.count(None)


def _said(where: str, part: object) -> str | None:
    part = checked(where, part, dict)
    return value_of(where, part, "text", str) if part.get("content_type") == _SPOKEN else None
