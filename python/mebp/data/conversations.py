# SPDX-License-Identifier: Apache-2.0
"""Conversations as rows of tokens in which the assistant's turns count."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.chat_template import ChatTemplate
from mebp.data.dataset import Row
from mebp.data.forms import Conversation
from mebp.errors import Error
from mebp.tokenizer import Tokenizer

Span = tuple[int, int]  # characters [start, end) of a text


@dataclass(frozen=True)
class Turns:
    """A conversation's text, and where the assistant speaks in it."""

    text: str
    spans: Sequence[Span]
    marked: bool  # by the template itself, token for token
    complete: bool  # False where only the last of the assistant's turns could be found


def conversation_row(turns: Turns, tokenizer: Tokenizer) -> Row:
    """The whole conversation; the assistant's turns count, each with the token that ends it."""
    tokens, offsets = tokenizer.encode_with_offsets(turns.text)
    ids = np.array(tokens, dtype=np.int32)
    labels = np.full_like(ids, IGNORED_LABEL)
    starts, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
    special = np.isin(ids, list(tokenizer.special_tokens))
    for start, end in turns.spans:
        # A special token that takes in the space after it ends the header; any other that reaches in is the answer's.
        inside = np.flatnonzero((starts < end) & (np.maximum(ends, starts + 1) > start) & ~(special & (starts < start)))
        if len(inside) == 0:
            continue
        first, last = inside[0], inside[-1]
        closing = next((index for index in inside[::-1] if special[index]), None)
        closed = closing is not None and not turns.text[ends[closing] : end].strip()
        if turns.marked and not closed and last + 1 < len(ids) and special[last + 1]:
            last += 1
        elif not turns.marked and closed:
            last = closing  # a line break after the end of a turn is not said by the assistant
        labels[first : last + 1] = ids[first : last + 1]
    return Row(ids, labels)


def find_turns(sample: Conversation, template: ChatTemplate) -> Turns:
    """Renders a conversation and finds the assistant's turns in its text that are to be learned.

    By the template's own marks; else by rendering the conversation up to each turn. A template may write earlier turns
    differently once others follow; then the last one alone is sure.
    Raises mebp.Error where the template refuses the conversation, or hides even that turn.
    """
    messages = sample.messages
    answers = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    learned = [sample.learned and index not in sample.masked for index in answers]
    try:
        text = template.render(messages, tools=sample.tools)
        marked = template.marked_spans(messages, sample.tools)
    except Error as error:
        raise Error(f"{sample.where}: {error}; change the conversation") from error
    # Marks within a turn say not whose they are, but where there is one for each.
    if marked and (all(learned) or len(marked) == len(answers)):
        kept = marked if all(learned) else list(compress(marked, learned))
        return Turns(text, kept, marked=True, complete=True)
    spans = [_span_by_prefixes(template, sample, index, text) for index in answers]
    if spans[-1] is None:
        raise Error(
            f"{sample.where}: the chat template rewrites the conversation, so mebp cannot find the assistant's "
            'turns; mark them in the template with {% generation %}, or give "prompt" and "completion"'
        )
    if None in list(compress(spans, learned)):
        return Turns(text, [span for span in spans[-1:] if learned[-1]], marked=False, complete=False)
    return Turns(text, list(compress(spans, learned)), marked=False, complete=True)


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


def _span_by_prefixes(template: ChatTemplate, sample: Conversation, index: int, text: str) -> Span | None:
    messages, tools = sample.messages, sample.tools
    try:
        before = template.render(messages[:index], add_generation_prompt=True, tools=tools)
        through = template.render(messages[: index + 1], tools=tools) if index + 1 < len(messages) else text
    except Error:  # some refuse a conversation that stops here
        return None
    if not (text.startswith(through) and through.startswith(before)):
        return None
    return len(before), len(through)
