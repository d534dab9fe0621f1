# SPDX-License-Identifier: Apache-2.0
"""Holds the pieces of a chat template to the template itself, on conversations with whatever contents may have."""

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from random import Random

from mebp.data.chat_template import ChatTemplate
from mebp.data.finding_pieces import MARK, MOST, Rendering, UncomposedError, conversation, find_pieces
from mebp.data.pieces import SPEAKERS, Pieces, UnfitError
from mebp.data.template_process import Refused
from mebp.data.turn_ends import turn_ends
from mebp.data.turns import Message
from mebp.tokenizer import Tokenizer

CONVERSATIONS = 200
_MOST = 9  # turns
_ANSWER_AT_ONCE = {"enable_thinking": False}  # what templates call it that the model is to answer without a thought
_DAYS = datetime(2003, 1, 2), datetime(2036, 11, 28)
_WORDS = (
    "Why", "the lamp", "is lit.", "42", "d'accord", "ß", "naïve", "e\u0301", "灯塔", "दीप", "שלום", "👩‍👩‍👧", "🇳🇴",
    "\u200b", "{{ x }}", "{% if %}", "\\n", "a\nb", "\n\n", "\t", "\u00a0", "\u3000", "\r\n", "<", "</s>", "&amp;",
    '"', "\x85",
)  # fmt: skip
_ENDS = ("", "", "", " ", "\n", "\n\n", " \n", "\n ", "\t", "\u00a0", "\u2003", "\u200b", "\r\n", "\x0b", "\x1c")
_SECONDS = 0.2  # of a conversation
_ALL_SECONDS = 60.0
_TRIES = 1000  # of a conversation in which nothing is refused


def pieces_of(tokenizer: Tokenizer) -> Pieces:
    """Raises UncomposedError where its template does not come in pieces, and mebp.Error where it cannot be read."""
    one, other = (_rendering(tokenizer, now) for now in _DAYS)
    source = one.whole.source
    _check_time(one)
    pieces = find_pieces(one, source)
    if "strftime_now" in source and find_pieces(other, source) != pieces:
        raise UncomposedError("it writes the date of the day")
    check_pieces(pieces, one, list(dict.fromkeys(MARK.findall(source))))
    try:
        json.dumps(pieces.to_json(), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UncomposedError("it writes half of a surrogate pair") from error
    return pieces


def _check_time(rendering: Rendering) -> None:
    """What follows are some thousand renderings."""
    seconds = []
    for _ in range(3):  # the machine may be busy
        begin = time.monotonic()
        rendering.texts([conversation(MOST, None)], False)
        seconds.append(time.monotonic() - begin)
    if min(seconds) > _SECONDS:
        raise UncomposedError(f"it takes more than {_SECONDS:g} seconds for a conversation of {MOST} turns")


def check_pieces(pieces: Pieces, rendering: Rendering, marks: Sequence[str]) -> None:
    """Raises UncomposedError at the first conversation of which pieces and template make different texts, or find
    answers at different places."""
    conversations = generate(pieces, marks)
    composed = [pieces.compose(messages) for messages in conversations]
    for messages, mine, turns in zip(conversations, composed, rendering.turns(conversations), strict=True):
        theirs = ("", []) if isinstance(turns, Refused) else (turns.text, [*turns.spans])
        if mine != theirs:
            raise UncomposedError(f"it writes {_shown(messages)} otherwise than its pieces")
    prompts = [messages for messages in conversations if messages[-1]["role"] == "user"]
    for messages, text in zip(prompts, rendering.texts(prompts, True), strict=True):
        if pieces.compose(messages, True)[0] != text:
            raise UncomposedError(f"it writes the prompt of {_shown(messages)} otherwise than its pieces")


def generate(pieces: Pieces, marks: Sequence[str], count: int = CONVERSATIONS) -> list[Sequence[Message]]:
    """The same conversations at each call; none has what the pieces refuse."""
    luck = Random(0)
    return [_conversation(luck, pieces, marks, index) for index in range(count)]


def _conversation(luck: Random, pieces: Pieces, marks: Sequence[str], index: int) -> Sequence[Message]:
    roles = [SPEAKERS[turn % 2] for turn in range(1 + luck.randrange(_MOST))]
    if index % 2 and (True, False) in pieces.forms:
        roles = ["system", *roles]
    for _ in range(_TRIES):
        messages = [{"role": role, "content": _content(luck, marks)} for role in roles]
        try:
            pieces.compose(messages)
            if roles[-1] == "user":
                pieces.compose(messages, True)
        except UnfitError:
            continue
        return messages
    raise UncomposedError(f"it refuses conversations of {len(roles)} turns")


def _content(luck: Random, marks: Sequence[str]) -> str:
    if not luck.randrange(12):
        return luck.choice(("", "", " ", "\n", " \n\t", "\u00a0"))
    words = [luck.choice(marks) if marks and not luck.randrange(10) else luck.choice(_WORDS)
             for _ in range(1 + luck.randrange(8))]  # fmt: skip
    return luck.choice(_ENDS) + luck.choice((" ", "", "\n")).join(words) + luck.choice(_ENDS)


def _rendering(tokenizer: Tokenizer, now: datetime) -> Rendering:
    whole = ChatTemplate(tokenizer, now)
    prompts = ChatTemplate(tokenizer, now, variables=_ANSWER_AT_ONCE)
    return Rendering(whole, prompts, turn_ends(tokenizer, whole), time.monotonic() + _ALL_SECONDS)


def _shown(messages: Sequence[Mapping[str, object]]) -> str:
    shortest = min((str(message["content"]) for message in messages), key=len)
    return f"{len(messages)} turns, of which one is {shortest!r},"
