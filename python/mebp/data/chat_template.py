# SPDX-License-Identifier: Apache-2.0
"""The chat template of a model's tokenizer: conversations to text, as transformers renders them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from mebp.data.template_process import Answer, Asked, BeyondLimitError, Part, Refused, TemplateProcess, UnreadableError
from mebp.errors import Error, translate_errors
from mebp.files import own_file, read_text
from mebp.tokenizer import Tokenizer

Message = Mapping[str, object]
Tool = Mapping[str, object]


class ChatTemplate:
    """Renders conversations by the template that belongs to a tokenizer, in a process with limits."""

    def __init__(self, tokenizer: Tokenizer, now: datetime | None = None) -> None:
        """`now` is the time for a template that writes the date; by default, the time of rendering.

        Raises mebp.Error where the tokenizer has no chat template or one that is not Jinja.
        """
        self._process = TemplateProcess(_find_source(tokenizer), tokenizer.named_special_tokens, now)
        what = f"{tokenizer.folder}: the chat template cannot be read"
        with translate_errors(what, "correct it", (BeyondLimitError, UnreadableError)):
            self.marks = self._process.prepare()  # whether it has {% generation %}

    def render(
        self, messages: Sequence[Message], add_generation_prompt: bool = False, tools: Sequence[Tool] | None = None
    ) -> str:
        """The text of a conversation; with `add_generation_prompt`, up to where the assistant's answer begins.

        tools: what the assistant may call, each a JSON schema as transformers' apply_chat_template takes it.

        Raises mebp.Error where the template refuses the conversation, or goes beyond what templates may take.
        """
        ((answer,),) = self.render_all([Asked(messages, tools, [Part(len(messages), add_generation_prompt)])])
        return accepted(answer)

    def render_all(self, asked: Iterable[Asked]) -> Iterator[list[Answer]]:
        """The texts of each conversation's parts: many conversations take much less time at once than one by one.

        Raises mebp.Error at the one with which the template goes beyond what templates may take.
        """
        try:
            yield from self._process.render(asked)
        except BeyondLimitError as error:
            raise Error(f"the model's chat template {error}") from error
        except UnreadableError as error:  # again, after the first process has ended
            raise Error(f"the model's chat template cannot be read: {error}") from error


def accepted(answer: Answer) -> str:
    """The text. Raises mebp.Error where the template refuses the conversation."""
    if isinstance(answer, Refused):
        raise Error(f"the model's chat template refuses it: {answer.reason}")
    return answer


def has_template(tokenizer: Tokenizer) -> bool:
    return _stated(tokenizer) is not None


def _find_source(tokenizer: Tokenizer) -> str:
    stated = _stated(tokenizer)
    if stated is None:
        raise Error(
            f"{tokenizer.folder}: this model has no chat template; put one in chat_template.jinja there, "
            'or give the data as "prompt" and "completion"'
        )
    return stated


def _stated(tokenizer: Tokenizer) -> str | None:
    file = own_file(tokenizer.folder / "chat_template.jinja")
    if file.is_file():
        return read_text(file, "export the model again")
    stated = tokenizer.settings("tokenizer_config.json").get("chat_template")
    if isinstance(stated, list):
        named = {entry.get("name"): entry.get("template") for entry in stated if isinstance(entry, dict)}
        stated = named.get("default")
    return stated if isinstance(stated, str) else None
