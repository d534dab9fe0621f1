# SPDX-License-Identifier: Apache-2.0
"""Text that appears token by token."""

from collections.abc import Callable, Sequence

from mebp.errors import Error

_INCOMPLETE = "\ufffd"  # what decoding makes of the first bytes of a character whose others are not there yet


def stop_strings(stop: str | Sequence[str] | None) -> list[str]:
    """One string, several or none, checked to have a character."""
    given = [] if stop is None else [stop] if isinstance(stop, str) else list(stop)
    if not all(isinstance(text, str) and text for text in given):
        raise Error("a stop string is empty; give some text, or none at all")
    return given


class TextStream:
    """Hands out a text's pieces as soon as no later token can change them: together they are the whole text, without
    white space at its ends, up to the first stop string."""

    def __init__(self, decode: Callable[[list[int]], str], stops: Sequence[str] = ()) -> None:
        self._decode, self._stops = decode, stops
        self._tokens: list[int] = []
        self._shown = 0
        self.has_stopped = False  # a stop string is there

    def add(self, token: int) -> str:
        """The text that has become certain with `token`: often a word, often nothing."""
        self._tokens.append(token)
        # Tokens are decoded from the first on: a token alone may lose a space, or bytes of a character.
        text = self._until_stop(self._decode(self._tokens).lstrip().rstrip(_INCOMPLETE))
        return self._advance(text if self.has_stopped else text[: len(text) - self._begun_stop(text)])

    def end(self) -> str:
        """What is left when no token follows."""
        return self._advance(self._until_stop(self._decode(self._tokens).lstrip()))

    def _until_stop(self, text: str) -> str:
        places = [place for place in (text.find(stop) for stop in self._stops) if place >= 0]
        self.has_stopped = bool(places)
        return text[: min(places)] if places else text

    def _begun_stop(self, text: str) -> int:
        """How many characters at the end may turn out to be the beginning of a stop string."""
        lengths = (length for stop in self._stops for length in range(1, len(stop)) if text.endswith(stop[:length]))
        return max(lengths, default=0)

    def _advance(self, text: str) -> str:
        piece = text.rstrip()[self._shown :]
        self._shown += len(piece)
        return piece
