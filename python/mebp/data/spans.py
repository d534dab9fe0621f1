# SPDX-License-Identifier: Apache-2.0
"""Where the assistant speaks in the text of a conversation, by a template that does not say so.

1. The text up to an answer, and up to its end, is rendered by itself. Where the whole text begins with both, the answer
   is what is between them.
2. A template may write an earlier turn differently once others follow: without what the model thought, or with another
   end. Then the conversation is rendered again, with signs in the turns of others beside the answers. An answer begins
   behind what follows the last sign in the text up to it, and goes on to the last end mark before the next turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mebp.data.forms import Conversation
from mebp.data.template_process import Answer, Asked, Part
from mebp.data.turn_ends import TurnEnds

Span = tuple[int, int]  # characters [start, end) of a text

# Unicode sets these aside for a program's own use; no text has them.
_SIGNS = [chr(code) for code in range(0xFDD2, 0xFDF0)]


@dataclass(frozen=True)
class Between:
    """A conversation's text, and of each answer where it begins, and where it is; None where that is not sure."""

    text: str
    starts: Sequence[int | None]
    spans: Sequence[Span | None]
    marked: bool = False


def answers_of(sample: Conversation) -> list[int]:
    return [index for index, message in enumerate(sample.messages) if message["role"] == "assistant"]


def look_between(answers: Sequence[int], text: str, others: Sequence[Answer], turns: int, thought: str) -> Between:
    """others: the texts up to each of the answers, and to its end, but for that of the last turn, which `text` has.
    thought: what a prompt opens behind the assistant's header."""
    rendered = iter(others)
    starts, spans = [], []
    for index in answers:
        before = next(rendered)
        through = next(rendered) if index + 1 < turns else text
        start = None
        if isinstance(before, str):  # some refuse a conversation that stops here
            before = before.removesuffix(thought)  # an answer's text may have another
            start = len(before) if text.startswith(before) else None
        sure = start is not None and isinstance(through, str) and text.startswith(through) and start <= len(through)
        starts.append(start)
        spans.append((start, len(through)) if sure else None)
    return Between(text, starts, spans)


def with_signs(sample: Conversation) -> Asked:
    """What spans_by_signs wants to see of a conversation."""
    messages = [*sample.messages]
    for sign, (index, is_end) in zip(_endless(), _places(sample), strict=False):
        content = messages[index]["content"]
        at = len(content.rstrip()) if is_end else len(content) - len(content.lstrip())  # templates may strip it
        messages[index] = {**messages[index], "content": content[:at] + sign + content[at:]}
    prompts = [Part(index, add_generation_prompt=True) for index in answers_of(sample)]
    return Asked(messages, sample.tools, [Part(len(messages)), *prompts])


def spans_by_signs(
    sample: Conversation, found: Between, signed: Sequence[Answer], ends: TurnEnds
) -> Sequence[Span | None]:
    """The spans, with those that signs tell; signed: what was asked for by with_signs."""
    whole, *prompts = signed
    if not isinstance(whole, str):
        return found.spans
    signs, position = {}, 0  # where they are in the text without them
    for sign, place in zip(_endless(), _places(sample), strict=False):
        at = whole.find(sign, position)
        if at >= 0:  # a template may leave out what tools say
            whole, position = whole[:at] + whole[at + 1 :], at
            signs[place] = at
    if whole != found.text:  # the template looks at what a turn begins or ends with
        return found.spans
    answers = answers_of(sample)
    starts = [
        _start(prompt, signs.get((index - 1, True)), whole, ends.thought) if start is None else start
        for start, index, prompt in zip(found.starts, answers, prompts, strict=True)
    ]
    spans = []
    for index, span, start, following in zip(answers, found.spans, starts, [*starts[1:], None], strict=True):
        limit = signs.get((index + 1, False), following)
        if span is None and start is not None and limit is not None:
            end = ends.last_end(whole, start, limit)
            span = None if end is None else (start, end)
        elif span is None and start is not None and index + 1 == len(sample.messages):
            span = start, len(whole)
        spans.append(span)
    return spans


def _start(prompt: Answer, sign: int | None, text: str, thought: str) -> int | None:
    """Behind what the prompt has after its last sign, which is at `sign` in the text."""
    last = max(map(prompt.rfind, _SIGNS)) if isinstance(prompt, str) else -1
    if sign is None or last < 0:
        return None
    header = prompt[last + 1 :].removesuffix(thought)
    return sign + len(header) if text.startswith(header, sign) else None


def _places(sample: Conversation) -> Iterator[tuple[int, bool]]:
    """Of the signs: in which turn, and whether at its end."""
    is_answer = [message["role"] == "assistant" for message in sample.messages]
    for index, message in enumerate(sample.messages):
        if is_answer[index] or not isinstance(message["content"], str):
            continue
        if index and is_answer[index - 1]:
            yield index, False
        if is_answer[index + 1 : index + 2] == [True]:
            yield index, True


def _endless() -> Iterator[str]:
    while True:
        yield from _SIGNS
