# SPDX-License-Identifier: Apache-2.0
"""Finds the pieces of a chat template, by what it renders.

1. Conversations of 1 to 8 turns whose contents are words that no template has are rendered, with and without a system's
   turn. What stands between the words is the pieces.
2. The same with white space at one end of one content: what of it is left says what is trimmed.
3. The same with the template's own marks in contents, and with empty ones: where pieces do not give what the template
   renders, such contents are refused.
"""

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

from mebp.data.chat_template import ChatTemplate
from mebp.data.conversations import Turns, find_turns
from mebp.data.forms import Conversation
from mebp.data.pieces import SPEAKERS, TRIMS, Form, Piece, Pieces, Place, Trim, places
from mebp.data.template_process import Answer, Asked, Part, Refused
from mebp.data.turn_ends import TurnEnds
from mebp.data.turns import Message

MOST = 8  # turns, with which each place is seen, most of them twice
_SYSTEM = "WordsOfTheSystem"
_SPACES = ("\n \n", " \n ")  # which every two of TRIMS leave otherwise
_TOGETHER = 16  # conversations that are rendered at once
_Each = TypeVar("_Each")
MARK = re.compile(r"<[^<>\s'\"{}]{1,40}>|\[/?[A-Z_]{2,30}\]")


class UncomposedError(Exception):
    """Why a template does not come in pieces, as in "it writes what the user says twice"."""


@dataclass(frozen=True)
class Rendering:
    """Of conversations by a template: as a whole for training, and up to where an answer begins without a thought."""

    whole: ChatTemplate
    prompts: ChatTemplate
    ends: TurnEnds
    until: float = math.inf  # by time.monotonic(), after which nothing more is rendered

    def texts(self, conversations: Sequence[Sequence[Message]], is_prompt: bool) -> list[Answer]:
        """As many as conversations, with the mark of the next turn behind the last answer where training has it."""
        template = self.prompts if is_prompt else self.whole
        answers = []
        for some in self._in_time(conversations):
            asked = (Asked(each, None, [Part(len(each), is_prompt)]) for each in some)
            answers += [answer for (answer,) in template.render_all(asked)]
        return [
            self.ends.ended(answer, each[-1]) if isinstance(answer, str) and each[-1]["role"] == "assistant" else answer
            for each, answer in zip(conversations, answers, strict=True)
        ]

    def _in_time(self, all_of_them: Sequence[_Each]) -> Iterator[Sequence[_Each]]:
        for start in range(0, len(all_of_them), _TOGETHER):
            if time.monotonic() > self.until:
                raise UncomposedError("it takes too long to render")
            yield all_of_them[start : start + _TOGETHER]

    def turns(self, conversations: Sequence[Sequence[Message]]) -> list[Turns | Refused]:
        """The whole texts with their answers, as training has them."""
        answers = enumerate(self.texts(conversations, False))
        refused = {index: answer for index, answer in answers if isinstance(answer, Refused)}
        fit = [
            Conversation(f"a conversation of {len(each)} turns", each)
            for index, each in enumerate(conversations)
            if index not in refused
        ]
        found = (turns for some in self._in_time(fit) for turns in _with_answers(some, self))
        return [refused[index] if index in refused else next(found) for index in range(len(conversations))]


def _with_answers(samples: Sequence[Conversation], rendering: Rendering) -> Iterator[Turns]:
    """As find_turns, which wants an answer in each."""
    answered = [sample for sample in samples if len(sample.messages) > 1 and _answers(sample.messages)]
    found = find_turns(answered, rendering.whole, rendering.ends)
    alone = [sample for sample in samples if not _answers(sample.messages)]
    texts = iter(rendering.texts([sample.messages for sample in alone], False))
    for sample in samples:
        yield next(found) if _answers(sample.messages) else Turns(str(next(texts)), (), False, True)


def _answers(messages: Sequence[Message]) -> bool:
    return any(message["role"] == "assistant" for message in messages)


def find_pieces(rendering: Rendering, source: str) -> Pieces:
    """source: the template's, for the marks in it.

    Raises UncomposedError, and mebp.Error where the template goes beyond what templates may take.
    """
    forms = {}
    for has_system, is_prompt in product((False, True), (False, True)):
        form = _find_form(rendering, has_system, is_prompt)
        if form:
            forms[has_system, is_prompt] = form
    if (False, False) not in forms:
        raise UncomposedError("it refuses a question and its answer without a system's turn")
    pieces = Pieces(forms, {}, False, rendering.whole.marks(None), rendering.ends)
    pieces = replace(pieces, skips_empty_system=_skips_empty_system(pieces, rendering))
    return replace(pieces, refused=_find_refused(pieces, rendering, dict.fromkeys(MARK.findall(source))))


def conversation(count: int, system: str | None) -> list[Message]:
    turns = [{"role": SPEAKERS[index % 2], "content": f"Words{index}Of{count}Words"} for index in range(count)]
    return turns if system is None else [{"role": "system", "content": system}, *turns]


def _counts(is_prompt: bool) -> range:
    return range(1, MOST + 1, 2 if is_prompt else 1)


def _find_form(rendering: Rendering, has_system: bool, is_prompt: bool) -> Form | None:
    """None where the template refuses all."""
    conversations = [conversation(count, _SYSTEM if has_system else None) for count in _counts(is_prompt)]
    if is_prompt:
        found = [Turns(each, (), False, True) if isinstance(each, str) else each
                 for each in rendering.texts(conversations, True)]  # fmt: skip
    else:
        found = rendering.turns(conversations)
    pieces: dict[Place, Piece] = {}
    for messages, turns in zip(conversations, found, strict=True):
        if isinstance(turns, Refused):
            continue
        if not turns.complete:
            raise UncomposedError("it hides where earlier answers are")
        _add(pieces, messages[has_system:], turns)
    if not pieces:
        return None
    return _with_trims(Form(pieces), rendering, has_system, is_prompt)


def _add(pieces: dict[Place, Piece], turns: Sequence[Message], found: Turns) -> None:
    text, spans, at = found.text, iter(found.spans), 0
    for place, message in zip(places(len(turns)), turns, strict=True):
        content = message["content"]
        if text.count(content) != 1:
            raise UncomposedError(f"it writes what the {place[0]} says {text.count(content)} times")
        begin = text.index(content)
        end = begin + len(content)
        start, stop = next(spans, (begin, end)) if place[0] == "assistant" else (begin, end)
        if not at <= start <= begin <= end <= stop:
            raise UncomposedError("it writes answers elsewhere than in their turns")
        after = text[stop:] if place[2] == 0 else ""
        piece = Piece(_around(text[at:start]), text[start:begin], Trim(), text[end:stop], _around(after))
        if pieces.setdefault(place, piece) != piece:
            raise UncomposedError(f"it writes a turn of the {place[0]} otherwise after more turns")
        at = stop


def _around(text: str) -> tuple[str, ...]:
    return tuple(text.split(_SYSTEM))


def _with_trims(form: Form, rendering: Rendering, has_system: bool, is_prompt: bool) -> Form:
    """The form with what it cuts off."""
    cases = []
    for count in _counts(is_prompt):
        if any(place not in form.pieces for place in places(count)):
            continue
        plain = conversation(count, _SYSTEM if has_system else None)
        keys = [*(["system"] if has_system else []), *places(count)]
        for index, space, left in product(range(len(plain)), _SPACES, (True, False)):
            content = plain[index]["content"]
            changed = {**plain[index], "content": space + content if left else content + space}
            cases.append((keys[index], left, [*plain[:index], changed, *plain[index + 1 :]]))
    rendered = rendering.texts([messages for _, _, messages in cases], is_prompt)
    fitting: dict[tuple[object, bool], list[str]] = {}
    for (key, left, messages), text in zip(cases, rendered, strict=True):
        known = fitting.get((key, left), [*TRIMS])
        fitting[key, left] = [kind for kind in known if _trimmed_gives(form, key, left, kind, messages, text)]
        if not fitting[key, left]:
            who = key if key == "system" else key[0]
            raise UncomposedError(f"it changes more than the ends of what the {who} says, or looks at them")
    trims = {key: Trim(fitting[key, True][0], fitting[key, False][0]) for key, _ in fitting}
    pieces = {place: replace(piece, trim=trims.get(place, Trim())) for place, piece in form.pieces.items()}
    return Form(pieces, trims.get("system", Trim()))


def _trimmed_gives(form: Form, key: object, left: bool, kind: str, messages: Sequence[Message], text: Answer) -> bool:
    """Whether the form has this text if it trims so at that place."""
    if not isinstance(text, str):
        return False
    trim = Trim(left=kind) if left else Trim(right=kind)
    if key == "system":
        form = replace(form, system=trim)
    else:
        form = replace(form, pieces={**form.pieces, key: replace(form.pieces[key], trim=trim)})
    has_system = messages[0]["role"] == "system"
    composed, _ = _compose_alone(form, has_system, messages)
    return composed == text


def _compose_alone(form: Form, has_system: bool, messages: Sequence[Message]) -> tuple[str, list]:
    nothing = TurnEnds(frozenset(), 0, frozenset())
    return Pieces({(has_system, False): form}, {}, False, False, nothing).compose(messages)


def _skips_empty_system(pieces: Pieces, rendering: Rendering) -> bool:
    if (True, False) not in pieces.forms:
        return False
    empty, without = rendering.texts([conversation(2, ""), conversation(2, None)], False)
    return empty == without


def _find_refused(pieces: Pieces, rendering: Rendering, marks: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """By role, the contents that the template treats otherwise."""
    refused: dict[str, list[str]] = {}
    cases = []
    for role, mark in product(("system", *SPEAKERS), ("", *marks)):
        for is_prompt, count in ((False, 4), (False, 3), (False, 2), (True, 3), (True, 1)):
            if (role == "system" and (True, is_prompt) not in pieces.forms) or (False, is_prompt) not in pieces.forms:
                continue
            for content in _contents_with(mark):
                messages = conversation(count, _SYSTEM if role == "system" else None)
                said = [{**each, "content": content} if each["role"] == role else each for each in messages]
                cases.append((role, mark, is_prompt, said))
    for is_prompt in (False, True):
        chosen = [case for case in cases if case[2] == is_prompt]
        rendered = rendering.texts([case[3] for case in chosen], is_prompt)
        for (role, mark, _, messages), text in zip(chosen, rendered, strict=True):
            composed, _ = pieces.compose(messages, is_prompt)
            if composed != text and mark not in refused.setdefault(role, []):
                refused[role].append(mark)
    return {role: texts for role, texts in refused.items() if texts}


def _contents_with(mark: str) -> list[str]:
    if not mark:
        return [""]
    pairs = [mark + "x" + other for other in _partners(mark)]
    return [mark, mark + "x", "x" + mark, "x" + mark + "y", *pairs, *(f"{each}y" for each in pairs)]


def _partners(mark: str) -> list[str]:
    return [f"</{mark[1:]}"] if mark.startswith("<") and not mark.startswith("</") else []
