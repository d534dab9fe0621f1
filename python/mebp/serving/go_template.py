# SPDX-License-Identifier: Apache-2.0
"""A chat template as Go's text/template, for a GGUF file that cannot carry its own.

What can be said so is what most templates do: a text before each turn that depends on whose turn it is and whose was
before. It is found by rendering conversations, and counts where other conversations come out the same.
"""

import json
from collections.abc import Callable, Mapping, Sequence

Messages = Sequence[Mapping[str, object]]
Render = Callable[[Messages, Sequence[Mapping[str, object]] | None], str | None]

BASE = "{{ .Prompt }}"  # of a model without a chat template: the question as it is

_SYSTEM, _USER, _ASSISTANT = "system", "user", "assistant"
_BEGIN, _END = "", "end"
_ASK, _SAY = {"role": _USER, "content": "Xu1"}, {"role": _ASSISTANT, "content": "Xa1"}
_OTHER_CALL = {"type": "function", "id": "call00002", "function": {"name": "find", "arguments": {}}}
_LEARNED = (
    [{"role": _SYSTEM, "content": "Xs1"}, _ASK, _SAY, {"role": _USER, "content": "Xu2"}],
    [_ASK],
    [_ASK, _SAY, {"role": _USER, "content": "Xu2"}],  # for one that refuses the first
    [_ASK, {**_SAY, "tool_calls": [_OTHER_CALL]},
     {"role": "tool", "content": "Xt1", "name": "find", "tool_call_id": "call00002"}],
)  # fmt: skip

_CALL = {"type": "function", "id": "call00001", "function": {"name": "look", "arguments": {"place": "Oslo"}}}
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {
    "type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}}}]  # fmt: skip
_ASKED = {"role": _USER, "content": ' Who keeps the "lamp"? \n'}
_AGAIN = {"role": _USER, "content": "Since when?"}
CONVERSATIONS: dict[str, Messages] = {
    "none": [_ASKED],
    "system": [{"role": _SYSTEM, "content": "Be brief."}, _ASKED],
    "several turns": [_ASKED, {"role": _ASSISTANT, "content": "The keeper."}, _AGAIN],
    "tool": [_ASKED, {"role": _ASSISTANT, "content": "", "tool_calls": [_CALL]},
             {"role": "tool", "content": "dark", "name": "look", "tool_call_id": "call00001"}],
    "thought": [_ASKED, {"role": _ASSISTANT, "content": "The keeper.", "reasoning_content": "Lamps have keepers."},
                _AGAIN],
}  # fmt: skip


def translate(render: Render) -> str | None:
    """The Go template that writes what `render` does of CONVERSATIONS, up to where an answer begins; None where none of
    this form does.

    render: the text of messages and tools, with the generation prompt; None where the template refuses them.
    """
    texts: dict[tuple[str, str], str] = {}
    for messages in _LEARNED:
        rest, before = render(messages, None), _BEGIN
        for role, content in ((str(message["role"]), str(message["content"])) for message in messages):
            if rest is None or content not in rest:
                break  # what it refuses need not be written
            text, _, rest = rest.partition(content)
            texts.setdefault((before, role), text)
            before = role
        else:
            texts.setdefault((before, _END), str(rest))
    for name, messages in CONVERSATIONS.items():
        if render(messages, TOOLS if name == "tool" else None) != _written(texts, messages):
            return None
    return _in_go(texts)


def _written(texts: Mapping[tuple[str, str], str], messages: Messages) -> str | None:
    """What _in_go's template makes of them; None of what it has no text for."""
    roles = [str(message["role"]) for message in messages]
    pairs = list(zip([_BEGIN, *roles], [*roles, _END], strict=True))
    if not all(pair in texts for pair in pairs):
        return None
    contents = [*(str(message["content"]) for message in messages), ""]
    return "".join(texts[pair] + content for pair, content in zip(pairs, contents, strict=True))


def _in_go(texts: Mapping[tuple[str, str], str]) -> str:
    before = "{{ $before := " + _quoted(_BEGIN) + " }}"
    turns = "{{ range .Messages }}" + _cases(texts, ".Role") + "{{ .Content }}{{ $before = .Role }}{{ end }}"
    return before + turns + _cases(texts)


def _cases(texts: Mapping[tuple[str, str], str], role: str | None = None) -> str:
    """What stands before a turn, whose role is at `role` of the template, or at the end."""
    cases = [
        f"if and (eq $before {_quoted(before)}) {f'(eq {role} {_quoted(name)})' if role else 'true'} }}}}"
        f"{{{{ {_quoted(text)} }}}}"
        for (before, name), text in texts.items()
        if (name == _END) == (role is None)
    ]
    return "{{ " + "{{ else ".join(cases) + "{{ end }}"


def _quoted(text: str) -> str:
    """As a string of Go, in one line, with nothing in it that a Modelfile would drop."""
    said = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in said)
