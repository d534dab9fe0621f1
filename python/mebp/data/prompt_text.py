# SPDX-License-Identifier: Apache-2.0
"""Prompts of text or of messages, the text that the model sees of them, and what follows, as tokens."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mebp.data.chat_template import ChatTemplate, accepted, blamed_on
from mebp.data.json_values import read_string
from mebp.data.template_process import Answer, Asked, Part
from mebp.data.turn_ends import PromptEnds
from mebp.data.turns import read_messages
from mebp.errors import Error
from mebp.tokenizer import Tokenizer

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


@dataclass(frozen=True)
class PromptText:
    """A prompt, and completions that may follow it."""

    where: str  # as errors call the prompt
    prompt: Written
    tools: Sequence[dict] | None
    completions: Mapping[str, Written] = field(default_factory=dict)  # by the names that errors call them


class PromptTokens:
    """Makes tokens of a file's prompts and completions."""

    def __init__(self, files: Sequence[Path], tokenizer: Tokenizer, vocabulary: int | None = None) -> None:
        """files: where they are from, for templates that write the date; vocabulary: tokens that the model knows, to
        which all ids are held."""
        self._files, self._tokenizer, self._vocabulary = files, tokenizer, vocabulary
        self.ends = PromptEnds(tokenizer, lambda: self._template)
        self.retokenized = 0  # completions whose first token would else reach back into the prompt

    def read(self, texts: Sequence[PromptText]) -> Iterator[tuple[list[int], list[list[int]]]]:
        """The ids of each prompt, at least one, and those of its completions, each with the token that ends it.

        They follow the very ids of the prompt, as they do when the model writes: where text and prompt together would
        make a token of both, the completion is made tokens of by itself.
        """
        written = [text for text in texts if not isinstance(text.prompt, str)]
        # A missing template is not a sample's fault.
        rendered = self._template.render_all(_asked(written)) if written else iter(())
        for text in texts:
            yield self._ids(text, rendered)

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
    def _template(self) -> ChatTemplate:
        return ChatTemplate.of_data(self._tokenizer, self._files)

    def _ids(self, text: PromptText, rendered: Iterator[list[Answer]]) -> tuple[list[int], list[list[int]]]:
        where, ends = text.where, self.ends.after(text.prompt)
        if isinstance(text.prompt, str):
            start, encode = text.prompt, self._tokenizer.encode_document
            wholes = [start + completion for completion in text.completions.values()]
        else:
            encode = self._tokenizer.encode
            with blamed_on(where):
                start, *wholes = [accepted(next(rendered)[0]) for _ in range(1 + len(text.completions))]
            if not all(whole.startswith(start) for whole in wholes):
                start = start.removesuffix(ends.thought)
        prompt_ids = self.checked(where, encode(start), "the prompt")
        ids = []
        for (name, completion), whole in zip(text.completions.items(), wholes, strict=True):
            if not whole.startswith(start):
                raise Error(
                    f"{where}: the chat template writes the prompt differently when an answer follows, so mebp cannot "
                    f'tell where {name} begins; give "prompt", "chosen" and "rejected" as text'
                )
            if not isinstance(completion, str):
                whole = ends.ended(whole, completion[-1])
            whole_ids = encode(whole)
            rest = whole_ids[len(prompt_ids) :]
            if whole_ids[: len(prompt_ids)] != prompt_ids:
                self.retokenized += 1
                rest = self._tokenizer.encode(whole[len(start) :])
            if isinstance(completion, str) and not ends.stop & {*rest[-1:]}:
                rest.append(ends.end)
            ids.append(self.checked(where, rest, name))
        return prompt_ids, ids


def _asked(texts: Sequence[PromptText]) -> Iterator[Asked]:
    for text in texts:
        yield Asked(text.prompt, text.tools, [Part(len(text.prompt), add_generation_prompt=True)])
        for completion in text.completions.values():
            whole = [*text.prompt, *completion]
            yield Asked(whole, text.tools, [Part(len(whole))])
