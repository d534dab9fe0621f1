# SPDX-License-Identifier: Apache-2.0
"""Conversations as rows of tokens in which the assistant's turns count."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.chat_template import ChatTemplate, accepted, blamed_on
from mebp.data.dataset import Row
from mebp.data.forms import Conversation
from mebp.data.spans import Between, Span, answers_of, look_between, spans_by_signs, with_signs
from mebp.data.template_process import Answer, Asked, Part
from mebp.data.thoughts import EMPTY_THOUGHT
from mebp.data.turn_ends import TurnEnds
from mebp.errors import Error
from mebp.tokenizer import Tokenizer

# Unicode sets these aside for a program's own use; no text has them.
_START, _END = "\ufdd0", "\ufdd1"


@dataclass(frozen=True)
class Turns:
    """A conversation's text, and where the assistant speaks in it."""

    text: str
    spans: Sequence[Span]
    marked: bool  # by the template itself, token for token
    complete: bool  # False where only the last of the assistant's turns could be found


def conversation_row(turns: Turns, tokenizer: Tokenizer, ends: TurnEnds) -> Row:
    """The whole conversation; the assistant's turns count, each with the token that ends it."""
    tokens, offsets = tokenizer.encode_with_offsets(turns.text)
    ids = np.asarray(tokens, dtype=np.int32)
    labels = np.full_like(ids, IGNORED_LABEL)
    starts, stops = np.asarray(offsets, dtype=np.int32).reshape(-1, 2).T
    special = ends.are_closing(ids)
    for start, end in turns.spans:
        empty = EMPTY_THOUGHT.match(turns.text, start, end)
        start = empty.end() if empty else start
        # A special token that takes in the space after it ends the header; any other that reaches in is the answer's.
        inside = np.flatnonzero(
            (starts < end) & (np.maximum(stops, starts + 1) > start) & ~(special & (starts < start))
        )
        if len(inside) == 0:
            continue
        first, last = inside[0], inside[-1]
        closing = next((index for index in inside[::-1] if special[index]), None)
        closed = closing is not None and not turns.text[stops[closing] : end].strip()
        if turns.marked and not closed and last + 1 < len(ids) and special[last + 1]:
            last += 1
        elif not turns.marked and closed:
            last = closing  # a line break after the end of a turn is not said by the assistant
        labels[first : last + 1] = ids[first : last + 1]
    return Row(ids, labels)


def find_turns(samples: Sequence[Conversation], template: ChatTemplate, ends: TurnEnds) -> Iterator[Turns]:
    """Renders conversations and finds in the text of each the assistant's turns that are to be learned.

    By the template's own marks; else by rendering the conversation up to each turn, or with signs in the turns of
    others (spans.py). Where that fails, the last answer alone is sure.
    Where the mark of the next turn ends an answer, it belongs to it, and stands behind the last one, too.
    Raises mebp.Error where the template refuses the conversation, or hides even that turn.
    """
    asked = (Asked(sample.messages, sample.tools, _parts(sample, template.marks(sample.tools))) for sample in samples)
    rendered = template.render_all(asked)
    found = [_first_look(sample, rendered, template, ends) for sample in samples]
    rewritten = [sample for sample, each in zip(samples, found, strict=True) if not each.marked and None in each.spans]
    signed = template.render_all(map(with_signs, rewritten))
    for sample, each in zip(samples, found, strict=True):
        if each.marked:
            yield _with_ends(each, sample, ends)
            continue
        spans = each.spans
        if None in spans:
            with blamed_on(sample.where):
                spans = spans_by_signs(sample, each, next(signed), ends)
        yield _with_ends(_learned_turns(sample, each.text, spans), sample, ends)


def _first_look(
    sample: Conversation, rendered: Iterator[list[Answer]], template: ChatTemplate, ends: TurnEnds
) -> Turns | Between:
    with blamed_on(sample.where):
        text, *others = next(rendered)
        text = accepted(text)
        if template.marks(sample.tools):
            marked = _find_marks(text, accepted(others[0]))
            learned = _learned(sample)
            # Marks within a turn do not say whose they are, but where there is one for each.
            if marked and (all(learned) or len(marked) == len(learned)):
                kept = marked if all(learned) else list(compress(marked, learned))
                return Turns(text, kept, marked=True, complete=True)
            _, *others = next(template.render_all([Asked(sample.messages, sample.tools, _parts(sample, False))]))
    return look_between(answers_of(sample), text, others, len(sample.messages), ends.thought)


def _with_ends(turns: Turns, sample: Conversation, ends: TurnEnds) -> Turns:
    """The same with the marks of next turns in the spans that they end."""
    if not ends.following and not ends.following_call:
        return turns
    text, spans = turns.text, []
    for start, end in turns.spans:
        if end == len(text) and sample.messages[-1]["role"] == "assistant":
            text = ends.ended(text, sample.messages[-1])
        spans.append((start, end + ends.begins(text, end)))
    return replace(turns, text=text, spans=spans)


def keys_beside(sample: Conversation) -> set[str]:
    """What turns have beside role and content, and "tools"."""
    keys = {key for message in sample.messages for key in message if message[key]} - {"role", "content"}
    return keys | ({"tools"} if sample.tools else set())


def is_hidden(sample: Conversation, key: str, template: ChatTemplate) -> bool:
    """Whether the conversation looks as if it did not have what keys_beside found there."""
    without = [{name: value for name, value in message.items() if name != key} for message in sample.messages]
    text = template.render(sample.messages, tools=sample.tools)
    try:
        return text == template.render(without, tools=None if key == "tools" else sample.tools)
    except Error:  # the template looks for what is not there
        return False


def _parts(sample: Conversation, marks: bool) -> list[Part]:
    """The whole conversation, and what tells where the assistant speaks: the whole with marks, or what ends before and
    after each of its turns."""
    whole = len(sample.messages)
    if marks:
        return [Part(whole), Part(whole, around=(_START, _END))]
    parts = [Part(whole)]
    for index in answers_of(sample):
        parts.append(Part(index, add_generation_prompt=True))
        if index + 1 < whole:
            parts.append(Part(index + 1))
    return parts


def _learned(sample: Conversation) -> list[bool]:
    """Of each answer."""
    return [index not in sample.masked for index in answers_of(sample)]


def _find_marks(text: str, marked: str) -> list[Span]:
    """What is within {% generation %}; nothing where the template changes what it has marked."""
    first, *pieces = marked.split(_START)
    plain, spans = first, []
    for piece in pieces:
        inside, closed, outside = piece.partition(_END)
        spans.append((len(plain), len(plain) + len(inside)))
        plain += inside + outside
        if not closed:
            return []
    return spans if plain == text else []


def _learned_turns(sample: Conversation, text: str, spans: Sequence[Span | None]) -> Turns:
    if spans[-1] is None:
        raise Error(
            f"{sample.where}: the chat template rewrites the conversation, so mebp cannot find the assistant's "
            'turns; mark them in the template with {% generation %}, or give "prompt" and "completion"'
        )
    learned = _learned(sample)
    found = list(compress(spans, learned))
    if None in found:
        return Turns(text, spans[-1:] if learned[-1] else [], marked=False, complete=False)
    return Turns(text, found, marked=False, complete=True)
