# SPDX-License-Identifier: Apache-2.0
"""A chat template as pieces: what it writes before, around and behind the turns of a conversation. docs/format.md has
the file.

Pieces know conversations of text: the system's turn or none, then the user and the assistant in turns. Which piece a
turn has depends on who speaks, on whether that is their first turn, and on how far the end is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mebp.data.spans import Span
from mebp.data.turn_ends import TurnEnds
from mebp.data.turns import Message

VERSION = 1
SPEAKERS = ("user", "assistant")
WHITE = "white space"
# What a template cuts off the ends of a content; None: what Python's str.strip does.
TRIMS: Mapping[str, str | None] = {"": "", "line breaks": "\n", "spaces": " ", WHITE: None}


@dataclass(frozen=True)
class Trim:
    """Keys of TRIMS for both ends of a content."""

    left: str = ""
    right: str = ""

    def of(self, content: str) -> str:
        return content.lstrip(TRIMS[self.left]).rstrip(TRIMS[self.right])


@dataclass(frozen=True)
class Piece:
    """Of a turn. Between the texts of `before` and of `after` stands what the system says."""

    before: tuple[str, ...]
    within: str = ""  # between here and `end` is the assistant's answer
    trim: Trim = field(default_factory=Trim)
    end: str = ""
    after: tuple[str, ...] = ("",)  # of the last turn


Place = tuple[str, bool, int]  # who speaks, whether for the first time, and how many turns follow, at most 2


@dataclass(frozen=True)
class Form:
    """The pieces of conversations with or without a system's turn, as a whole or as a prompt for an answer."""

    pieces: Mapping[Place, Piece]
    system: Trim = field(default_factory=Trim)


class UnfitError(Exception):
    """Why pieces do not have a conversation, as in "turn 2 is the user's again"."""


@dataclass(frozen=True)
class Pieces:
    """A template, and the tokens that count."""

    forms: Mapping[tuple[bool, bool], Form]  # by whether there is a system's turn, and whether it is a prompt
    refused: Mapping[str, Sequence[str]]  # texts in contents that the template treats as its own, by role
    skips_empty_system: bool  # whether a system's turn without a word is none
    marked: bool  # whether the template itself says what the assistant's text is
    ends: TurnEnds

    def compose(self, messages: Sequence[Message], is_prompt: bool = False) -> tuple[str, list[Span]]:
        """The text, and where in it the answers are. Raises UnfitError."""
        self._check_contents(messages)
        said, turns = self._split(messages, is_prompt)
        form = self._form(said is not None, is_prompt)
        text, spans = "", []
        for index, (place, message) in enumerate(zip(places(len(turns)), turns, strict=True)):
            if message["role"] != place[0]:
                raise UnfitError(f"turn {index + 1} is not the {place[0]}'s")
            piece = form.pieces.get(place)
            if piece is None:
                raise UnfitError(f"the template refuses a conversation of {len(turns)} turns")
            text += (said or "").join(piece.before)
            start = len(text)
            text += piece.within + piece.trim.of(message["content"]) + piece.end
            if place[0] == "assistant":
                spans.append((start, len(text)))
            text += (said or "").join(piece.after)
        return text, spans

    def _check_contents(self, messages: Sequence[Message]) -> None:
        for message in messages:
            for mark in self.refused.get(message["role"], ()):
                if mark in message["content"] and (mark or not message["content"].strip()):
                    said = f"reads {mark!r} as its own" if mark else "writes a turn without a word otherwise"
                    raise UnfitError(f"the template {said}")

    def _form(self, has_system: bool, is_prompt: bool) -> Form:
        if (has_system, is_prompt) not in self.forms:
            refused = "a turn of the system" if has_system else "a conversation without a system's turn"
            raise UnfitError(f"the template refuses {refused}")
        return self.forms[has_system, is_prompt]

    def _split(self, messages: Sequence[Message], is_prompt: bool) -> tuple[str | None, Sequence[Message]]:
        """What the system says, trimmed, None where there is nothing of it; and the turns of others."""
        if messages[0]["role"] != "system":
            return None, messages
        form = self.forms.get((True, is_prompt))
        said = (form.system if form else Trim()).of(messages[0]["content"])
        return (None if self.skips_empty_system and not said else said), messages[1:]

    def to_json(self) -> dict:
        known: dict[Piece, int] = {}
        forms = [
            {
                "system": _trim_to_json(form.system) if has_system else None,
                "prompt": is_prompt,
                "pieces": {
                    speaker: [
                        [known.setdefault(piece, len(known)) if piece else None for piece in row]
                        for row in _rows(form.pieces, speaker)
                    ]
                    for speaker in SPEAKERS
                },
            }
            for (has_system, is_prompt), form in self.forms.items()
        ]
        return {
            "version": VERSION,
            "pieces": list(map(_piece_to_json, known)),
            "forms": forms,
            "refused": {role: [*texts] for role, texts in self.refused.items()},
            "skips_empty_system": self.skips_empty_system,
            "marked": self.marked,
            "stop": sorted(self.ends.stop),
            "closing": sorted(self.ends.closing),
            "thought": self.ends.thought,
        }


def places(count: int) -> Iterator[Place]:
    """Of the turns of a conversation beside the system's."""
    for index in range(count):
        yield SPEAKERS[index % 2], index < 2, min(count - 1 - index, 2)


def _rows(pieces: Mapping[Place, Piece], speaker: str) -> list[list[Piece | None]]:
    return [[pieces.get((speaker, is_first, follow)) for follow in range(3)] for is_first in (True, False)]


def _piece_to_json(piece: Piece) -> dict:
    return {
        "before": [*piece.before],
        "within": piece.within,
        "trim": _trim_to_json(piece.trim),
        "end": piece.end,
        "after": [*piece.after],
    }


def _trim_to_json(trim: Trim) -> list[str]:
    return [trim.left, trim.right]
