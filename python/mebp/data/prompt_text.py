# SPDX-License-Identifier: Apache-2.0
"""Prompts of text or of messages, the text that the model sees of them, and what follows, as tokens."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mebp.data.json_values import read_string
from mebp.data.turns import read_messages
from mebp.errors import Error, translate_errors
from mebp.tokenizer import Tokenizer

if TYPE_CHECKING:
    from mebp.data.chat_template import ChatTemplate

Message = Mapping[str, object]
Written = str | Sequence[Message]  # a text, or turns {"role", "content"}


def read_written(where: str, entry: dict, key: str) -> Written:
    """The text or the messages in entry[key]; raises mebp.Error for anything else there."""
    if isinstance(entry[key], list):
        return read_messages(where, entry, key)
    return read_string(where, entry, key)


def check_kept_out(where: str, entry: dict) -> None:
    """Raises mebp.Error for what would change the tokens and is not read."""
    if entry.get("chat_template_kwargs"):
        raise Error(f'{where}: "chat_template_kwargs" is not read; write what it sets into the chat template')


class PromptTokens:
    """Makes tokens of a file's prompts and completions."""

    def __init__(self, path: Path, tokenizer: Tokenizer, vocabulary: int | None = None) -> None:
        """vocabulary: tokens that the model knows, to which all ids are held."""
        self._path, self._tokenizer, self._vocabulary = path, tokenizer, vocabulary
        self.retokenized = 0  # completions whose first token would else reach back into the prompt

    def of_prompt(self, where: str, prompt: Written, tools: Sequence[dict] | None) -> list[int]:
        """The ids that a completion follows, at least one."""
        return self.checked(where, self._prompt(where, prompt, tools)[1], "the prompt")

    def of_completions(
        self, where: str, prompt: Written, completions: Mapping[str, Written], tools: Sequence[dict] | None
    ) -> list[list[int]]:
        """The ids of a prompt's completions, by the names that errors call them, each with the token that ends it.

        They follow the very ids of the prompt, as they do when the model writes: where text and prompt together would
        make a token of both, the completion is made tokens of by itself.
        """
        start, prompt_ids = self._prompt(where, prompt, tools)
        ids = []
        for name, completion in completions.items():
            whole, whole_ids = self._whole(where, prompt, completion, tools)
            if not whole.startswith(start):
                raise Error(
                    f"{where}: the chat template writes the prompt differently when an answer follows, so mebp cannot "
                    f'tell where {name} begins; give "prompt", "chosen" and "rejected" as text'
                )
            rest = whole_ids[len(prompt_ids) :]
            if whole_ids[: len(prompt_ids)] != prompt_ids:
                self.retokenized += 1
                rest = self._tokenizer.encode(whole[len(start) :])
            if isinstance(completion, str) and rest[-1:] != [self._tokenizer.end_of_sequence]:
                rest.append(self._tokenizer.end_of_sequence)
            ids.append(self.checked(where, rest, name))
        return ids

    def checked(self, where: str, ids: list[int], name: str) -> list[int]:
        """The ids; raises mebp.Error where there are none, or one that the model does not know."""
        if not ids:
            raise Error(f"{where}: {name} is empty, so nothing can follow or be learned; leave the sample out")
        beyond = None if self._vocabulary is None else next((each for each in ids if each >= self._vocabulary), None)
        if beyond is not None:
            raise Error(
                f"{where}: {name} has token {beyond}, beyond the model's vocabulary of {self._vocabulary:,}; "
                "use the model's own tokenizer"
            )
        return ids

    @cached_property
    def _template(self) -> "ChatTemplate":
        from mebp.data.chat_template import ChatTemplate  # jinja2 is not needed for texts

        # Where a template writes the date, it is the file's: a run that goes on tomorrow sees the same tokens.
        with translate_errors(f"{self._path}: cannot be read", "check the path"):
            return ChatTemplate(self._tokenizer, now=datetime.fromtimestamp(self._path.stat().st_mtime))

    def _prompt(self, where: str, prompt: Written, tools: Sequence[dict] | None) -> tuple[str, list[int]]:
        if isinstance(prompt, str):
            return prompt, self._tokenizer.encode_document(prompt)
        text = self._rendered(where, prompt, tools, add_generation_prompt=True)
        return text, self._tokenizer.encode(text)

    def _whole(
        self, where: str, prompt: Written, completion: Written, tools: Sequence[dict] | None
    ) -> tuple[str, list[int]]:
        if isinstance(prompt, str):
            return prompt + completion, self._tokenizer.encode_document(prompt + completion)
        text = self._rendered(where, [*prompt, *completion], tools)
        return text, self._tokenizer.encode(text)

    def _rendered(
        self, where: str, messages: Sequence[Message], tools: Sequence[dict] | None, add_generation_prompt: bool = False
    ) -> str:
        template = self._template  # a missing one is not this sample's fault
        try:
            return template.render(messages, add_generation_prompt, tools)
        except Error as error:
            raise Error(f"{where}: {error}; change the conversation") from error
