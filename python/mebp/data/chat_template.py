# SPDX-License-Identifier: Apache-2.0
"""The chat template of a model's tokenizer: conversations to text, as transformers renders them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Macro

from mebp.data.template_limits import BoundedEnvironment
from mebp.errors import Error, reason, translate_errors
from mebp.files import own_file, read_text
from mebp.tokenizer import Tokenizer

Message = Mapping[str, object]
Tool = Mapping[str, object]

# Unicode sets these aside for a program's own use; no text has them.
_START, _END = "\ufdd0", "\ufdd1"


class ChatTemplate:
    """Renders conversations by the template that belongs to a tokenizer."""

    def __init__(self, tokenizer: Tokenizer, now: datetime | None = None) -> None:
        """`now` is the time for a template that writes the date; by default, the time of rendering.

        Raises mebp.Error where the tokenizer has no chat template or one that is not Jinja.
        """
        source = _find_source(tokenizer)
        self._special_tokens = tokenizer.named_special_tokens
        with translate_errors(f"{tokenizer.folder}: the chat template cannot be read", "correct it", TemplateError):
            self._plain = _environment(_Transparent, now).from_string(source)
            self._marking = _environment(_Marking, now).from_string(source)

    def render(
        self, messages: Sequence[Message], add_generation_prompt: bool = False, tools: Sequence[Tool] | None = None
    ) -> str:
        """The text of a conversation; with `add_generation_prompt`, up to where the assistant's answer begins.

        tools: what the assistant may call, each a JSON schema as transformers' apply_chat_template takes it.

        Raises mebp.Error where the template refuses the conversation, or goes beyond what templates may take.
        """
        return self._render(self._plain, messages, add_generation_prompt, tools)

    def marked_spans(self, messages: Sequence[Message], tools: Sequence[Tool] | None = None) -> list[tuple[int, int]]:
        """Where render(messages, tools=tools) has what is within {% generation %}, as (start, end) in characters.

        Empty where it marks nothing, or where it changes what it has marked.
        """
        pieces = self._render(self._marking, messages, False, tools).split(_START)
        plain, spans = pieces[0], []
        for piece in pieces[1:]:
            inside, closed, outside = piece.partition(_END)
            spans.append((len(plain), len(plain) + len(inside)))
            plain += inside + outside
            if not closed:
                return []
        return spans if plain == self.render(messages, tools=tools) else []

    def _render(
        self,
        template: Template,
        messages: Sequence[Message],
        add_generation_prompt: bool,
        tools: Sequence[Tool] | None,
    ) -> str:
        template.environment.begin()
        try:
            return template.render(
                messages=messages,
                tools=tools,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._special_tokens,
            )
        except Exception as error:  # whatever Python raises for what a template does
            raise Error(f"the model's chat template refuses it: {reason(error)}") from error


def _find_source(tokenizer: Tokenizer) -> str:
    file = own_file(tokenizer.folder / "chat_template.jinja")
    if file.is_file():
        return read_text(file, "export the model again")
    stated = tokenizer.settings("tokenizer_config.json").get("chat_template")
    if isinstance(stated, list):
        named = {entry.get("name"): entry.get("template") for entry in stated if isinstance(entry, dict)}
        stated = named.get("default")
    if not isinstance(stated, str):
        raise Error(
            f"{tokenizer.folder}: this model has no chat template; put one in chat_template.jinja there, "
            'or give the data as "prompt" and "completion"'
        )
    return stated


class _Transparent(Extension):
    """{% generation %} ... {% endgeneration %}, in which a template writes what the assistant said."""

    tags = frozenset({"generation"})

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_write"), [], [], body).set_lineno(line)

    def _write(self, caller: Macro) -> str:
        return caller()


class _Marking(_Transparent):
    def _write(self, caller: Macro) -> str:
        return _START + caller() + _END


def _environment(generation: type[Extension], now: datetime | None) -> BoundedEnvironment:
    environment = BoundedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[generation, loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: (now or datetime.now()).strftime(form)
    return environment


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own escapes for HTML.
    if isinstance(indent, int) and indent > 100:
        raise TemplateError("it indents too far")
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)
