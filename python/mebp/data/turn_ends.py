# SPDX-License-Identifier: Apache-2.0
"""Where an answer of the assistant ends: one rule for what is learned, for what stops a model that writes, and for what
counts as a finished completion."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from mebp.data.chat_template import ChatTemplate, has_template
from mebp.data.template_process import Answer, Asked, Part
from mebp.tokenizer import Tokenizer

_QUESTION = {"role": "user", "content": "A question"}
_ANSWER = {"role": "assistant", "content": "The answer"}
_CALL = {"type": "function", "id": "call00001", "function": {"name": "look", "arguments": {}}}
_CALLING = {**_ANSWER, "tool_calls": [_CALL]}
_RESULT = {"role": "tool", "content": "A result", "name": "look", "tool_call_id": "call00001"}


@dataclass(frozen=True)
class TurnEnds:
    """What ends an answer."""

    stop: frozenset[int]  # tokens with which an answer is finished
    end: int  # what is put behind an answer that has none of them
    closing: frozenset[int]  # marks with which a turn may be closed in a rendered text
    # The marks of the next turn, where the template writes nothing of its own behind an answer: what comes after an
    # answer to a user, and after one that calls a tool. Empty where there is no such mark.
    following: str = ""
    following_call: str = ""

    def after(self, message: dict) -> str:
        """What ends this turn of the assistant if nothing follows."""
        return (self.following_call if message.get("tool_calls") else "") or self.following

    def begins(self, text: str, position: int) -> int:
        """How many characters of `text` the mark of a next turn has at `position`."""
        marks = {mark for mark in (self.following, self.following_call) if mark}
        return next((len(mark) for mark in marks if text.startswith(mark, position)), 0)


def text_ends(tokenizer: Tokenizer) -> TurnEnds:
    """Of texts that no template has written."""
    return TurnEnds(frozenset(tokenizer.stop_tokens), tokenizer.end_of_sequence, frozenset(tokenizer.special_tokens))


def turn_ends(tokenizer: Tokenizer, template: ChatTemplate) -> TurnEnds:
    """Of conversations: what the tokenizer and the configuration name, and what the template writes behind an answer.

    If that is nothing, it is the mark with which the next turn begins (as in GLM 4).
    """
    answered, calling = template.render_all([
        Asked([_QUESTION, _ANSWER, _QUESTION], None, [Part(2), Part(3)]),
        Asked([_QUESTION, _CALLING, _RESULT], None, [Part(2), Part(3)]),
    ])  # fmt: skip
    stated, marks = tokenizer.stop_tokens, {**tokenizer.added_tokens}
    own = _own_mark(answered[0], tokenizer)
    following = "" if own is not None else _next_mark(*answered, tokenizer)
    following_call = _next_mark(*calling, tokenizer) if following else ""
    found = {own} - {None} | {index for index, text in marks.items() if text and text in (following, following_call)}
    end = own if own is not None else next((i for i, text in marks.items() if following and text == following), None)
    return TurnEnds(
        frozenset(stated | found),
        tokenizer.end_of_sequence if end is None else end,
        frozenset(tokenizer.special_tokens | found),
        following,
        following_call,
    )


class PromptEnds:
    """What ends completions of prompts: of texts, and of turns that a chat template writes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._of_text = text_ends(tokenizer)

    def after(self, prompt: str | Sequence[object]) -> TurnEnds:
        return self._of_text if isinstance(prompt, str) else self._of_turns

    @cached_property
    def _of_turns(self) -> TurnEnds:
        # Prompts that are given as ids need no template.
        if not has_template(self._tokenizer):
            return self._of_text
        return turn_ends(self._tokenizer, ChatTemplate(self._tokenizer))


def _own_mark(through: Answer, tokenizer: Tokenizer) -> int | None:
    """The mark that the template writes behind the last answer."""
    if not isinstance(through, str) or _ANSWER["content"] not in through:
        return None
    behind = tokenizer.encode(through.rpartition(_ANSWER["content"])[2])
    marks = tokenizer.special_tokens | tokenizer.added_tokens.keys()
    first = next((index for index, token in enumerate(behind) if token in marks), len(behind))
    together = list(takewhile(marks.__contains__, behind[first:]))
    # Of marks side by side, as <|END_RESPONSE|><|END_OF_TURN_TOKEN|>, the model stops at the one that it names.
    return next((token for token in together if token in tokenizer.stop_tokens), next(iter(together), None))


def _next_mark(through: Answer, whole: Answer, tokenizer: Tokenizer) -> str:
    if not isinstance(through, str) or not isinstance(whole, str) or not whole.startswith(through):
        return ""
    begin = tokenizer.encode(whole[len(through) :].lstrip())[:1]
    text = tokenizer.added_tokens.get(begin[0], "") if begin else ""
    return text if whole.startswith(text, len(through)) else ""
