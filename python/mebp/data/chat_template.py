# SPDX-License-Identifier: Apache-2.0
"""The chat template of a model's tokenizer: conversations to text, as transformers renders them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from mebp.data.template_process import Answer, Asked, BeyondLimitError, Part, Refused, TemplateProcess, UnreadableError
from mebp.errors import Error, translate_errors
from mebp.exporter.template_files import DEFAULT, TOOLS, read_templates
from mebp.tokenizer import Tokenizer

Message = Mapping[str, object]
Tool = Mapping[str, object]

_PROBE = "A question that no template has."


class ChatTemplate:
    """Renders conversations by the templates that belong to a tokenizer, in a process with limits."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        now: datetime | None = None,
        source: str | None = None,
        variables: Mapping[str, object] | None = None,
    ) -> None:
        """`now` is the time for a template that writes the date; by default, the time of rendering. `source` is a
        template in place of the tokenizer's own. `variables` are what it knows besides, such as enable_thinking.

        Raises mebp.Error where the tokenizer has no chat template or one that is not Jinja.
        """
        sources = _find_sources(tokenizer) if source is None else {DEFAULT: source}
        self.source = sources.get(DEFAULT, "")  # of what is rendered without tools
        self._process = TemplateProcess(sources, {**tokenizer.named_special_tokens, **(variables or {})}, now)
        what = f"{tokenizer.folder}: the chat template cannot be read"
        with translate_errors(what, "correct it", (BeyondLimitError, UnreadableError)):
            self._marks = self._process.prepare()
        self._takes_parts = self._wants_parts()

    @classmethod
    def of_data(cls, tokenizer: Tokenizer, files: Sequence[Path]) -> "ChatTemplate":
        """For the conversations in files. Where it writes the date, it is theirs: a run that goes on tomorrow sees the
        same tokens."""
        with translate_errors(f"{files[0]}: cannot be read", "check the path"):
            now = datetime.fromtimestamp(max(file.stat().st_mtime for file in files))
        return cls(tokenizer, now=now)

    def marks(self, tools: Sequence[Tool] | None) -> bool:
        """Whether what is rendered with these tools has {% generation %}."""
        return self._marks.get(self._process.name(tools), False)

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
            yield from self._process.render(map(_in_parts, asked) if self._takes_parts else asked)
        except BeyondLimitError as error:
            raise Error(f"the model's chat template {error}") from error
        except UnreadableError as error:  # again, after the first process has ended
            raise Error(f"the model's chat template cannot be read: {error}") from error

    def _wants_parts(self) -> bool:
        """Whether contents have to be lists of parts: templates of models that see images leave out a text."""
        asked = Asked([{"role": "user", "content": _PROBE}], None, [Part(1)])
        try:
            answers = [answer for (answer,) in self._process.render([asked, _in_parts(asked)])]
        except (BeyondLimitError, UnreadableError):  # which is said of the first conversation
            return False
        return [isinstance(answer, str) and _PROBE in answer for answer in answers] == [False, True]


def _in_parts(asked: Asked) -> Asked:
    messages = [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        if isinstance(message.get("content"), str)
        else message
        for message in asked.messages
    ]
    return replace(asked, messages=messages)


@contextmanager
def blamed_on(where: str) -> Iterator[None]:
    """An error in the block is about the conversation there."""
    try:
        yield
    except Error as error:
        raise Error(f"{where}: {error}; change the conversation") from error


def accepted(answer: Answer) -> str:
    """The text. Raises mebp.Error where the template refuses the conversation."""
    if isinstance(answer, Refused):
        raise Error(f"the model's chat template refuses it: {answer.reason}")
    return answer


def has_template(tokenizer: Tokenizer) -> bool:
    return bool(_templates(tokenizer))


def _find_sources(tokenizer: Tokenizer) -> dict[str, str]:
    """The template that is rendered, and the one for conversations with tools, if the model has one of its own."""
    templates = _templates(tokenizer)
    found = {name: templates[name] for name in (DEFAULT, TOOLS) if name in templates}
    if not templates:
        raise Error(
            f"{tokenizer.folder}: this model has no chat template; put one in chat_template.jinja there, "
            'or give the data as "prompt" and "completion"'
        )
    if not found:
        raise Error(
            f"{tokenizer.folder}: none of the model's chat templates ({', '.join(sorted(templates))}) is its default; "
            "save the one that you mean in chat_template.jinja there"
        )
    return found


def _templates(tokenizer: Tokenizer) -> dict[str, str]:
    return read_templates(tokenizer.folder, tokenizer.settings("tokenizer_config.json"))
