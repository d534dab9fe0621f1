# SPDX-License-Identifier: Apache-2.0
"""What templates write for a model to think in."""

import re
from collections.abc import Sequence

from mebp.tokenizer import Tokenizer

# Names of tags are ASCII, as in runtime/text/data/empty_thought.cpp; the space around them is Unicode's.
_TAG = r"(?ai:[<\[◁][|/]{0,2}[\w:]{0,20}(?:think|thought|reason)[\w:]{0,20}\|?[>\]▷])"
_OPENED = re.compile(rf"(?:{_TAG}\s{{0,9}}){{1,2}}\Z")

# A thought without a word, with the line breaks around it: a model that is to answer at once gets it in its prompt.
_EMPTY = re.compile(rf"\s{{0,9}}{_TAG}\s{{0,9}}{_TAG}\s{{0,9}}")

# How a thought begins and ends, and what leads to the answer behind it: tags, and the channels of gpt-oss and Gemma 4.
_FLAGS = re.IGNORECASE | re.DOTALL
_WORD = r"(?:\w{1,12}:)?(?:think(?:ing)?|thought|reasoning)"
_THOUGHTS = (
    (
        re.compile(rf"[<\[◁]\|?(?:START_)?{_WORD}\|?[>\]▷]", _FLAGS),
        re.compile(rf"[<\[◁](?:\|?/|/\||\|?END_){_WORD}\|?[>\]▷]", _FLAGS),
        re.compile(""),
    ),
    (
        re.compile(r"<\|channel\|>analysis<\|message\|>", _FLAGS),
        re.compile(r"<\|end\|>", _FLAGS),
        re.compile(r".*<\|message\|>", _FLAGS),
    ),
    (re.compile(r"<\|channel>thought\n", _FLAGS), re.compile(r"<channel\|>", _FLAGS), re.compile("")),
)
_CHANNEL = re.compile(r"<\|channel\|>\w{1,20}<\|message\|>")  # of gpt-oss, where it answers without a thought
_TAIL = 16  # tokens of a prompt, in which the thought that it opens stands


def opened_thought(prompt: str) -> str:
    """The thought that a generation prompt opens, or opens and closes, at its end; empty where it does not."""
    found = _OPENED.search(prompt)
    return found[0] if found else ""


def end_of_empty_thought(text: str, start: int = 0, end: int | None = None) -> int | None:
    """Where an answer goes on that is text[start:end] and begins with a thought without a word; None where it does
    not."""
    found = _EMPTY.match(text, start, len(text) if end is None else end)
    return found.end() if found else None


def begin_of_answer(text: str, start: int, end: int, thought: str) -> int:
    """Where what the model writes itself begins, of an answer that is text[start:end]: behind the thought that the
    prompt opens. One that the prompt also closes is the model's where it is learned at all."""
    if not thought or _EMPTY.fullmatch(thought) or not text.startswith(thought, start, end):
        return start
    return start + len(thought)


def split_thought(text: str, is_opened: bool = False) -> tuple[str | None, str]:
    """What a completion thinks, and what it answers, both without the space around them; None where it does not think.

    is_opened: whether the prompt has begun the thought. What is cut off within it has no answer. Tags in the middle of
    an answer, without one at its beginning, mean nothing.
    """
    for begin, end, lead in _THOUGHTS:
        opened = begin.match(text, len(text) - len(text.lstrip()))
        if not (opened or is_opened):
            continue
        start = opened.end() if opened else 0
        closed = end.search(text, start)
        if closed is None:
            if opened:
                return text[start:].strip(), ""
            continue
        led = lead.match(text, closed.end())
        return text[start : closed.start()].strip(), text[led.end() if led else closed.end() :].strip()
    if is_opened:
        return text.strip(), ""
    channel = _CHANNEL.match(text.lstrip())
    return None, text.lstrip()[channel.end() if channel else 0 :].strip()


def thought_and_answer(
    tokenizer: Tokenizer, prompt: Sequence[int], completion: Sequence[int]
) -> tuple[str | None, str]:
    """The same of a completion's ids: special tokens may be what marks a thought."""
    before, written = (
        tokenizer.backend.decode([int(each) for each in ids], skip_special_tokens=False)
        for ids in (prompt[-_TAIL:], completion)
    )
    opening = opened_thought(before)
    thought, answer = split_thought(written, bool(opening) and not _EMPTY.fullmatch(opening))
    return None if thought is None else _plain(tokenizer, thought), _plain(tokenizer, answer)


def _plain(tokenizer: Tokenizer, text: str) -> str:
    for index in tokenizer.special_tokens:
        text = text.replace(tokenizer.added_tokens.get(index, "\0"), "")
    return text.strip()
