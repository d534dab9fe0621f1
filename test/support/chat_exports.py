# SPDX-License-Identifier: Apache-2.0
"""Small exports of chats, in the forms in which ChatGPT, Claude and Telegram write them."""

HOUR = 3600


def chatgpt(*messages: dict, title: str = "Trip", last: int | None = None) -> dict:
    """A conversation in which each message follows the one before; the app shows those up to `last`."""
    names = [f"node{index}" for index in range(len(messages))]
    mapping = {
        name: {"id": name, "message": message, "parent": names[index - 1] if index else None, "children": []}
        for index, (name, message) in enumerate(zip(names, messages, strict=True))
    }
    shown = names[len(names) - 1 if last is None else last] if names else None
    return {"title": title, "mapping": mapping, "current_node": shown}


def chatgpt_message(role: str, *parts: object, kind: str = "text", **others: object) -> dict:
    return {
        "author": {"role": role, "name": None},
        "content": {"content_type": kind, "parts": list(parts)},
        "weight": 1.0,
        "recipient": "all",
        "channel": None,
        **others,
    }


def claude(*messages: dict, name: str = "Trip") -> dict:
    return {"uuid": "c1", "name": name, "account": {"uuid": "a1"}, "chat_messages": list(messages)}


def claude_message(sender: str, text: str, *blocks: dict, **others: object) -> dict:
    return {"uuid": "m1", "sender": sender, "text": text, "content": list(blocks), "attachments": [], **others}


def telegram(*messages: dict, name: str = "Ana", kind: str = "personal_chat") -> dict:
    return {"name": name, "type": kind, "id": 7, "messages": list(messages)}


def telegram_message(author: str | None, text: object, hours: float = 0, **others: object) -> dict:
    seconds = 1_700_000_000 + int(hours * HOUR)
    return {
        "id": 1,
        "type": "message",
        "date": "2023-11-14T22:13:20",
        "date_unixtime": str(seconds),
        "from": author,
        "from_id": f"user{sum((author or '').encode())}",
        "text": text,
        **others,
    }
