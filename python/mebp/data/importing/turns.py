# SPDX-License-Identifier: Apache-2.0
"""Chats as conversations in which one person's turns are the assistant's, and so are learned."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from mebp.data.importing.chats import ASSISTANT, USER, Chat, LeftOut, Message

NO_ANSWER = LeftOut("conversation", "in which {learned} answers nobody")
UNASKED = LeftOut("message", "with which {learned} begins a conversation")
UNANSWERED = LeftOut("message", "after the last of {learned} in a conversation")


def conversations_of(
    chat: Chat, learned: str, pause: float, left_out: Counter[LeftOut]
) -> Iterator[list[dict[str, str]]]:
    """The turns of each conversation in a chat, of which one ends where nobody writes for `pause` seconds.

    It begins with somebody else's turn and ends with one that is learned; what is cut off, or left out as a whole, is
    counted. It also ends where others say nothing in text: what follows answers what is not there. Where several others
    write, each of their messages has its author's name before it.
    """
    several = len({message.author for message in chat.messages if message.text and not message.is_by(learned)}) > 1
    found = False
    for messages in _without_pauses(chat.messages, pause):
        for turns in _without_gaps(messages, learned):
            found = True
            first = 1 if turns[0][0].is_by(learned) else 0
            last = len(turns) if turns[-1][0].is_by(learned) else len(turns) - 1
            if last - first < 2:
                left_out[NO_ANSWER] += 1
                continue
            left_out[UNASKED] += sum(map(len, turns[:first]))
            left_out[UNANSWERED] += sum(map(len, turns[last:]))
            yield [_turn(turn, learned, several) for turn in turns[first:last]]
    if not found:
        left_out[NO_ANSWER] += 1


def _without_pauses(messages: Sequence[Message], pause: float) -> Iterator[list[Message]]:
    part: list[Message] = []
    for message in messages:
        if part and message.time is not None and message.time - part[-1].time > pause:
            yield part
            part = []
        part.append(message)
    if part:
        yield part


def _without_gaps(messages: Sequence[Message], learned: str) -> Iterator[list[list[Message]]]:
    """Turns, each of messages with text, up to one of others that has none."""
    turns: list[list[Message]] = []
    said = (message for message in messages if message.text or not message.is_by(learned))
    for _, turn in groupby(said, key=lambda message: message.is_by(learned)):
        texts = [message for message in turn if message.text]
        if texts:
            turns.append(texts)
        elif turns:
            yield turns
            turns = []
    if turns:
        yield turns


def _turn(messages: Sequence[Message], learned: str, several: bool) -> dict[str, str]:
    if messages[0].is_by(learned):
        return {"role": ASSISTANT, "content": "\n".join(message.text for message in messages)}
    texts = (f"{message.author}: {message.text}" if several else message.text for message in messages)
    return {"role": USER, "content": "\n".join(texts)}
