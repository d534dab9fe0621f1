# SPDX-License-Identifier: Apache-2.0
"""The Modelfile beside a GGUF file, by which Ollama serves it as it was trained."""

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mebp.data.chat_template import ChatTemplate, Message, Tool
from mebp.data.template_process import Asked, Part
from mebp.data.turn_ends import text_ends, turn_ends
from mebp.errors import Error
from mebp.exporter.template_files import DEFAULT, read_templates
from mebp.exporter.text_parts import text_config
from mebp.files import replaced_file
from mebp.serving import OLDEST
from mebp.serving.go_template import BASE, Render, translate
from mebp.serving.renderers import Rendering, rendering_of
from mebp.tokenizer import Tokenizer
from mebp.version import __version__

NAME = "Modelfile"
_TEMPLATE_ADVICE = "save one template as chat_template.jinja beside the tokenizer"

# Of generation_config.json, and what Ollama calls them.
_PARAMETERS = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
}
_SAMPLING = ("temperature", "top_k", "top_p", "min_p")
_WHOLE = "top_k"
_QUOTES = '"""'
_QUESTION = {"role": "user", "content": "Xu1"}
_THINKS = "enable_thinking"  # which llama.cpp and Ollama set for a template that has it
_NO_THOUGHTS = (
    "its template thinks only if asked to, and servers do ask: say ollama run NAME --think=false, and llama-server "
    "--chat-template-kwargs '{\"enable_thinking\": false}'"
)


@dataclass(frozen=True)
class Modelfile:
    """What is to be written beside a GGUF file."""

    path: Path
    gguf: Path
    text: str
    notes: list[str] = field(default_factory=list)  # what it cannot say
    no_thoughts: bool = False  # whether a server has to be told not to let the model think

    @property
    def command(self) -> str:
        """What makes a model of it."""
        return f"ollama create {model_name(self.gguf.stem)} -f {shlex.quote(str(self.path))}"

    @contextmanager
    def written(self) -> Iterator[None]:
        """It is there after the block, and not where that fails."""
        with replaced_file(self.path, "nothing was, choose another place") as file:
            file.write_text(self.text, encoding="utf-8")
            yield


def model_name(text: str) -> str:
    """A name that Ollama takes, as near to `text` as such names are."""
    found = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("._-")[:80]
    return found or "mebp"


def modelfile_beside(gguf: Path, bundle: Path) -> Modelfile | None:
    """Of `gguf`, which need not be there yet, made of the bundle's model; None of a model without a tokenizer, to which
    nobody can talk.

    It is called Modelfile or, where there is one already, Modelfile-NAME by the file's. Raises mebp.Error where that is
    there, too, or the file's name cannot stand in one.
    """
    if not (bundle / "tokenizer" / "tokenizer.json").is_file():
        return None
    path = gguf.with_name(NAME)
    if path.exists() or path.is_symlink():
        path = gguf.with_name(f"{NAME}-{gguf.stem}")
    if path.exists() or path.is_symlink():
        raise Error(f"{path}: exists already; move it, or name another GGUF file")
    if not gguf.name.isprintable() or gguf.name != gguf.name.strip():
        raise Error(f"{gguf}: a {NAME} cannot name it; give it a name of letters, digits and '-'")
    tokenizer = Tokenizer(bundle)
    no_thoughts = False
    try:
        lines, notes = _described(tokenizer)
        no_thoughts = _thinks_if_asked(tokenizer)
    except Error as error:  # of the template, which the file has in any case
        lines, notes = [], [f"{error}; so its {NAME} has no stop marks"]
    if no_thoughts:
        notes.append(_NO_THOUGHTS)
    head = f"# Written by mebp {__version__} for Ollama {OLDEST} or later: ollama create NAME -f {path.name}"
    return Modelfile(path, gguf, "\n".join([head, f"FROM ./{gguf.name}", *lines]) + "\n", notes, no_thoughts)


def _described(tokenizer: Tokenizer) -> tuple[list[str], list[str]]:
    """All but the file: lines of a Modelfile, and what they do not say."""
    templates = read_templates(tokenizer.folder, tokenizer.settings("tokenizer_config.json"))
    notes: list[str] = []
    ends, lines = text_ends(tokenizer).stop, []
    if not templates:
        lines = [f"TEMPLATE {_quoted(BASE)}"]
    elif DEFAULT in templates:
        template = ChatTemplate(tokenizer)
        ends = turn_ends(tokenizer, template).stop
        config = text_config(tokenizer.settings("config.json"))
        lines = _conversing(template, rendering_of(str(config.get("model_type")), templates[DEFAULT]))
    else:
        found = _translated(tokenizer, templates)
        lines = [f"TEMPLATE {_quoted(found)}"] if found else []
        if not found:
            names = ", ".join(sorted(templates))
            notes.append(f"none of the chat templates ({names}) is the default that a GGUF file carries, and none "
                         f"translates to Go's, so there is no TEMPLATE; {_TEMPLATE_ADVICE}")  # fmt: skip
    marks = filter(_can_stand, (tokenizer.added_tokens.get(index, "") for index in sorted(ends)))
    stops = [f"PARAMETER stop {_quoted(mark)}" for mark in marks]
    return [*lines, *_parameters(tokenizer.settings("generation_config.json")), *stops], notes


def _conversing(template: ChatTemplate, rendering: Rendering | None) -> list[str]:
    """Of a template that the file carries."""
    if rendering is not None:
        return [f"RENDERER {rendering.renderer}", f"PARSER {rendering.parser}"]
    # Ollama replaces templates that look like one of a few that it knows by its own, which lack their default system
    # message: SmolLM2's among them. Said here, it is the same by either.
    system = _default_system(template)
    return [f"SYSTEM {_quoted(system)}"] if system else []


def _thinks_if_asked(tokenizer: Tokenizer) -> bool:
    """Whether the template writes something else where thinking is switched on than where nobody says so."""
    templates = read_templates(tokenizer.folder, tokenizer.settings("tokenizer_config.json"))
    if _THINKS not in templates.get(DEFAULT, ""):
        return False
    asked = ChatTemplate(tokenizer, variables={_THINKS: True})
    return _rendered(ChatTemplate(tokenizer), [_QUESTION]) != _rendered(asked, [_QUESTION])


def _default_system(template: ChatTemplate) -> str:
    """The system message that the template writes where a conversation has none."""
    system = {"role": "system", "content": "Xs1"}
    given, plain = (_rendered(template, messages) for messages in ([system, _QUESTION], [_QUESTION]))
    if given is None or plain is None or given.count("Xs1") != 1:
        return ""
    before, _, behind = given.partition("Xs1")
    if len(plain) <= len(before) + len(behind) or not (plain.startswith(before) and plain.endswith(behind)):
        return ""
    found = plain[len(before) : len(plain) - len(behind)]
    same = _rendered(template, [{**system, "content": found}, _QUESTION]) == plain
    return found if same and _can_stand(found) else ""


def _translated(tokenizer: Tokenizer, templates: Mapping[str, str]) -> str | None:
    """The first of templates of other names that has one in Go's language."""
    # What the tokenizer puts before any text, a TEMPLATE does not.
    begin = "".join(tokenizer.added_tokens.get(index, "") for index in tokenizer.before_text)
    for _, source in sorted(templates.items()):
        found = translate(_renderer(ChatTemplate(tokenizer, source=source), begin))
        if found is not None:
            return found
    return None


def _renderer(template: ChatTemplate, begin: str) -> Render:
    def render(messages: Sequence[Message], tools: Sequence[Tool] | None) -> str | None:
        text = _rendered(template, messages, tools)
        return text and text.removeprefix(begin)

    return render


def _rendered(template: ChatTemplate, messages: Sequence[Message], tools: Sequence[Tool] | None = None) -> str | None:
    """Up to where the answer begins; None where the template refuses it."""
    asked = Asked(messages, tools, [Part(len(messages), add_generation_prompt=True)])
    ((answer,),) = template.render_all([asked])
    return answer if isinstance(answer, str) else None


def _parameters(settings: Mapping[str, object]) -> list[str]:
    """Of generation_config.json: how its authors sample from the model."""
    draws = settings.get("do_sample") is not False
    found = []
    for name, theirs in _PARAMETERS.items():
        value = settings.get(name)
        if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
            continue
        if (name in _SAMPLING and not draws) or (name == _WHOLE and value != int(value)):
            continue
        found.append(f"PARAMETER {theirs} {int(value) if name == _WHOLE else value}")
    return found


def _can_stand(text: str) -> bool:
    """Whether a Modelfile can hold it: Ollama reads no escapes, and drops what cannot be printed."""
    is_shown = all(each.isprintable() or each in "\n\t" for each in text)
    return bool(text) and is_shown and _QUOTES not in text and not text.startswith('"') and not text.endswith('"')


def _quoted(text: str) -> str:
    return f"{_QUOTES}{text}{_QUOTES}" if '"' in text or "\n" in text else f'"{text}"'
