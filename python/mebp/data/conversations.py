# SPDX-License-Identifier: Apache-2.0
"""Conversations as rows of tokens in which the assistant's turns count, or what --loss-on says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, repeat

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.chat_template import ChatTemplate, accepted, blamed_on
from mebp.data.counting import ALL, AS_USUAL, LAST, TURNS, Counting
from mebp.data.dataset import Row
from mebp.data.forms import Conversation
from mebp.data.spans import Between, Span, answers_of, look_between, spans_by_signs, with_signs
from mebp.data.template_process import Answer, Asked, Part
from mebp.data.thoughts import begin_of_answer, end_of_empty_thought
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
    weights: Sequence[float] | None = None  # of what is in the spans; None: 1
    outside: float = 0.0  # of all else


def counted_samples(sample: Conversation, on: str) -> Iterator[Conversation]:
    """The samples that --loss-on makes of one; in each, what does not count is masked. None where nothing counts."""
    answers = answers_of(sample)
    if on == LAST and answers[-1] not in sample.masked:
        yield replace(sample, masked=sample.masked.union(answers[:-1]))
    elif on == TURNS:
        for count, index in enumerate(answers):
            if index not in sample.masked:
                yield replace(sample, messages=sample.messages[: index + 1], masked=frozenset(answers[:count]))
    elif on not in (LAST, TURNS):
        yield sample


def conversation_row(turns: Turns, tokenizer: Tokenizer, ends: TurnEnds, counting: Counting = AS_USUAL) -> Row:
    """The whole conversation; the assistant's turns count, each with the token that ends it."""
    tokens, offsets = tokenizer.encode_with_offsets(turns.text)
    ids = np.asarray(tokens, dtype=np.int32)
    weights = np.full(len(ids), turns.outside, np.float32)
    starts, stops = np.asarray(offsets, dtype=np.int32).reshape(-1, 2).T
    special = ends.are_closing(ids)
    for (begin, end), weight in zip(turns.spans, turns.weights or repeat(1.0), strict=False):
        empty = None if counting.learns_empty_thoughts else end_of_empty_thought(turns.text, begin, end)
        start = begin if turns.outside else empty or begin_of_answer(turns.text, begin, end, ends.thought)
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
        weights[first : last + 1] = weight
        if turns.outside and empty:
            weights[(starts >= begin) & (starts < empty) & (stops <= empty)] = 0
    labels = np.where(weights > 0, ids, np.int32(IGNORED_LABEL))
    return Row(ids, labels, weights=weights if counting.weighs else None)


def find_turns(
    samples: Sequence[Conversation], template: ChatTemplate, ends: TurnEnds, on: str = AS_USUAL.on
) -> Iterator[Turns]:
    """Renders conversations and finds in the text of each the assistant's turns that are to be learned; where all
    counts (--loss-on), those that are not to be, and what else is found.

    By the template's own marks; else by rendering the conversation up to each turn, or with signs in the turns of
    others (spans.py). Where that fails, the last answer alone is sure.
    Where the mark of the next turn ends an answer, it belongs to it, and stands behind the last one, too.
    Raises mebp.Error where the template refuses the conversation, or hides even that turn.
    """
    asked = (Asked(sample.messages, sample.tools, _parts(sample, template.marks(sample.tools))) for sample in samples)
    rendered = template.render_all(asked)
    samples = [replace(sample, masked=_own_marks(sample)) for sample in samples] if on == ALL else samples
    found = [_first_look(sample, rendered, template, ends, on) for sample in samples]
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
        yield _with_ends((_all_turns if on == ALL else _learned_turns)(sample, each.text, spans), sample, ends)


def _first_look(
    sample: Conversation, rendered: Iterator[list[Answer]], template: ChatTemplate, ends: TurnEnds, on: str
) -> Turns | Between:
    with blamed_on(sample.where):
        text, *others = next(rendered)
        text = accepted(text)
        if template.marks(sample.tools):
            marked = _find_marks(text, accepted(others[0]))
            weights = _weights(sample)
            # Marks within a turn do not say whose they are, but where there is one for each.
            if marked and (len(set(weights)) == 1 or len(marked) == len(weights)):
                weights = weights[:1] * len(marked) if len(set(weights)) == 1 else weights
                return _counted(sample, text, marked, weights, on, marked=True)
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


def _weights(sample: Conversation) -> list[float]:
    """Of each answer; 0 of one that is not learned."""
    return [
        0.0 if index in sample.masked else sample.weight * sample.weights.get(index, 1.0)
        for index in answers_of(sample)
    ]


def _own_marks(sample: Conversation) -> frozenset[int]:
    """What is masked by marks of turns, and not by the sample's form."""
    return frozenset(index for index in sample.masked if index >= sample.prompted)


def _counted(
    sample: Conversation, text: str, spans: Sequence[Span], weights: Sequence[float], on: str, marked: bool
) -> Turns:
    """These spans with these weights; but where all counts, those alone that do."""
    outside = sample.weight if on == ALL else 0.0
    kept = [True] * len(spans) if outside else weights
    return Turns(text, list(compress(spans, kept)), marked, True, list(compress(weights, kept)), outside)


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
    weights = _weights(sample)
    if None in compress(spans, weights):
        last = weights[-1:] if weights[-1] else []
        return Turns(text, spans[-1:] if last else [], False, False, last)
    return _counted(sample, text, spans, weights, AS_USUAL.on, marked=False)


def _all_turns(sample: Conversation, text: str, spans: Sequence[Span | None]) -> Turns:
    weights = _weights(sample)
    hidden = [weight for span, weight in zip(spans, weights, strict=True) if span is None]
    if any(weight != sample.weight for weight in hidden):
        raise Error(
            f"{sample.where}: the chat template rewrites the conversation, so mebp cannot find the turn that counts "
            "otherwise than the rest; mark the assistant's turns in the template with {% generation %}, or leave its "
            "weight out"
        )
    there = [span is not None for span in spans]
    found = list(compress(spans, there))
    return _counted(sample, text, found, list(compress(weights, there)), ALL, marked=False)
