# SPDX-License-Identifier: Apache-2.0
"""Text that appears token by token."""

from collections.abc import Callable

_INCOMPLETE = "\ufffd"  # what decoding makes of the first bytes of a character whose others are not there yet


class TextStream:
    """Hands out a text's pieces as soon as no later token can change them: together they are the whole text, without
    white space at its ends."""

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._shown = 0

    def add(self, token: int) -> str:
        """The text that has become certain with `token`: often a word, often nothing."""
        self._tokens.append(token)
        # Tokens are decoded from the first on: a token alone may lose a space, or bytes of a character.
        return self._advance(self._decode(self._tokens).lstrip().rstrip(_INCOMPLETE))

    def end(self) -> str:
        """What is left when no token follows."""
        return self._advance(self._decode(self._tokens).lstrip())

    def _advance(self, text: str) -> str:
        piece = text.rstrip()[self._shown :]
        self._shown += len(piece)
        return piece
