# SPDX-License-Identifier: Apache-2.0
"""A conversation as the model's chat template puts it."""

from mebp.data.chat_template import ChatTemplate
from mebp.data.turn_ends import turn_ends
from mebp.tokenizer import Tokenizer


class Chat:
    """Turns of a user and an assistant, by a tokenizer's chat template."""

    def __init__(self, tokenizer: Tokenizer, system: str | None = None) -> None:
        """`system` is the system's turn; None leaves it to the template.

        Raises mebp.Error where the tokenizer has no chat template.
        """
        self._template, self._tokenizer = ChatTemplate(tokenizer), tokenizer
        self._before = [] if system is None else [{"role": "system", "content": system}]
        self._answered = 0

    def prompt(self, text: str) -> str:
        """The turns so far and the user's next one, `text`, up to where the assistant's answer begins."""
        return self._template.render(self._turns(text), add_generation_prompt=True)

    def keep(self, text: str, answer: str) -> None:
        """Makes the user's turn `text` and its answer part of the conversation."""
        self._before = [*self._turns(text), {"role": "assistant", "content": answer}]
        self._answered += 1

    def forget_first(self) -> bool:
        """Leaves out the first question and its answer; False where there is none."""
        if not self._answered:
            return False
        first = len(self._before) - 2 * self._answered
        del self._before[first : first + 2]
        self._answered -= 1
        return True

    def stop_tokens(self) -> frozenset[int]:
        """What ends an answer."""
        return turn_ends(self._tokenizer, self._template).stop

    def _turns(self, text: str) -> list[dict[str, str]]:
        return [*self._before, {"role": "user", "content": text}]
