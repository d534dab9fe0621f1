# SPDX-License-Identifier: Apache-2.0
"""Where an answer of the assistant ends: one rule for what is learned, for what stops a model that writes, and for what
counts as a finished completion."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import numpy as np

from mebp.data.chat_template import ChatTemplate, has_template
from mebp.data.template_process import Answer, Asked, Part
from mebp.data.thoughts import opened_thought
from mebp.tokenizer import Tokenizer

_QUESTION = {"role": "user", "content": "A question"}
_ANSWER = {"role": "assistant", "content": "The answer"}
_NO_PARAMETERS = {"type": "object", "properties": {}}
_CALL = {"type": "function", "id": "call00001", "function": {"name": "look", "arguments": {}}}
_TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": _NO_PARAMETERS}}]
_CALLING = {**_ANSWER, "tool_calls": [_CALL]}
_RESULT = {"role": "tool", "content": "A result", "name": "look", "tool_call_id": "call00001"}


@dataclass(frozen=True)
class TurnEnds:
    """What ends an answer."""

    stop: frozenset[int]  # tokens with which an answer is finished
    end: int  # what is put behind an answer that has none of them
    closing: frozenset[int]  # marks with which a turn may be closed in a rendered text
    ends: frozenset[str] = frozenset()  # those of them that do nothing else
    # The marks of the next turn, where the template writes nothing of its own behind an answer: what comes after an
    # answer to a user, and after one that calls a tool. Empty where there is no such mark.
    following: str = ""
    following_call: str = ""
    thought: str = ""  # what a prompt opens behind the assistant's header, such as <think>

    def are_closing(self, ids: np.ndarray) -> np.ndarray:
        """Which of these tokens are such marks."""
        return self._closing[np.minimum(ids, len(self._closing) - 1)]

    @cached_property
    def _closing(self) -> np.ndarray:
        """Of each token whether it is one; of the last, which stands for all behind it, False."""
        table = np.zeros(max(self.closing, default=-1) + 2, bool)
        table[list(self.closing)] = True
        return table

    def ended(self, text: str, message: Mapping[str, object]) -> str:
        """A text whose last turn is this one of the assistant, with the mark of the next one behind it."""
        mark = (self.following_call if message.get("tool_calls") else "") or self.following
        return text if text.endswith(mark) else text + mark

    def last_end(self, text: str, start: int, limit: int) -> int | None:
        """Where the last mark ends that stands between `start` and `limit`."""
        found = ((text.rfind(mark, start, limit), len(mark)) for mark in self.ends)
        return max((at + length for at, length in found if at >= 0), default=None)

    def begins(self, text: str, position: int) -> int:
        """How many characters of `text` the mark of a next turn has at `position`."""
        marks = (mark for mark in (self.following, self.following_call) if mark)
        return next((len(mark) for mark in marks if text.startswith(mark, position)), 0)


def text_ends(tokenizer: Tokenizer) -> TurnEnds:
    """Of texts that no template has written."""
    return TurnEnds(frozenset(tokenizer.stop_tokens), tokenizer.end_of_sequence, frozenset(tokenizer.special_tokens))


def turn_ends(tokenizer: Tokenizer, template: ChatTemplate) -> TurnEnds:
    """Of conversations: what the tokenizer and the configuration name, and what the template writes behind an answer.

    If that is nothing, it is the mark with which the next turn begins (as in GLM 4).
    """
    (prompt, *answered), calling = template.render_all([
        Asked([_QUESTION, _ANSWER, _QUESTION], None, [Part(1, add_generation_prompt=True), Part(2), Part(3)]),
        Asked([_QUESTION, _CALLING, _RESULT], _TOOLS, [Part(2), Part(3)]),
    ])  # fmt: skip
    own, following, following_call = _own_mark(answered[0], tokenizer), _NONE, _NONE
    # Behind an earlier answer there may be another one, which need not end the last: gpt-oss ends thoughts with it.
    earlier, call = _own_mark(answered[1], tokenizer), None
    if own is None:
        following = _next_mark(*answered, tokenizer)
        own = following.token
        following_call = _next_mark(*calling, tokenizer) if following.text else _NONE
    else:
        call = _last_mark(calling[0], own, tokenizer)
    found = {own, call, following_call.token} - {None}
    stop = frozenset(tokenizer.stop_tokens | found)
    closing = stop | ({earlier} - {None})
    return TurnEnds(
        stop,
        tokenizer.end_of_sequence if own is None else own,
        closing | tokenizer.special_tokens,
        frozenset(tokenizer.added_tokens[index] for index in closing if index in tokenizer.added_tokens),
        following.text,
        following_call.text,
        opened_thought(prompt) if isinstance(prompt, str) else "",
    )


class PromptEnds:
    """What ends completions of prompts: of texts, and of turns that a chat template writes."""

    def __init__(self, tokenizer: Tokenizer, template: Callable[[], ChatTemplate] | None = None) -> None:
        """template: gives the tokenizer's, where somebody has it; asked for with the first prompt of turns."""
        self._tokenizer = tokenizer
        self._template = template or (lambda: ChatTemplate(tokenizer))
        self._of_text = text_ends(tokenizer)

    def after(self, prompt: str | Sequence[object]) -> TurnEnds:
        return self._of_text if isinstance(prompt, str) else self._of_turns

    @cached_property
    def _of_turns(self) -> TurnEnds:
        # Prompts that are given as ids need no template.
        if not has_template(self._tokenizer):
            return self._of_text
        return turn_ends(self._tokenizer, self._template())


@dataclass(frozen=True)
class _Mark:
    text: str  # with the space before it
    token: int | None


_NONE = _Mark("", None)


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


def _last_mark(through: Answer, own: int, tokenizer: Tokenizer) -> int | None:
    """The mark at the end of an answer that calls a tool, which may not be the one that others end with."""
    if not isinstance(through, str) or _ANSWER["content"] not in through:
        return None
    behind = tokenizer.encode(through.rpartition(_ANSWER["content"])[2].rstrip())
    marks = tokenizer.special_tokens | tokenizer.added_tokens.keys()
    together = list(takewhile(marks.__contains__, reversed(behind)))
    known = tokenizer.stop_tokens | {own}
    return next((token for token in together if token in known), next(iter(together), None))


def _next_mark(through: Answer, whole: Answer, tokenizer: Tokenizer) -> _Mark:
    if not isinstance(through, str) or not isinstance(whole, str) or not whole.startswith(through):
        return _NONE
    rest = whole[len(through) :]
    begin = rest.lstrip()
    token = next(iter(tokenizer.encode(begin)), None)
    text = tokenizer.added_tokens.get(token, "")
    return _Mark(rest[: len(rest) - len(begin)] + text, token) if text and begin.startswith(text) else _NONE
