# SPDX-License-Identifier: Apache-2.0
"""The forms that a sample of JSON may have."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mebp.data.json_values import check_value
from mebp.errors import Error
from mebp.objective_traits import those_that

ROLES = ("system", "user", "assistant", "tool")

_TURN = '{"role", "content"}'
_SHAREGPT_TURN = '{"from", "value"}'
_SHAREGPT_ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "tool": "tool",
    "observation": "tool",
}
Value = TypeVar("Value")


@dataclass(frozen=True)
class Document:
    """A text on its own."""

    where: str  # the file, and the line where there are several
    text: str


@dataclass(frozen=True)
class Completion:
    """A prompt, and how it goes on."""

    where: str
    prompt: str
    completion: str


@dataclass(frozen=True)
class Conversation:
    """Turns {"role", "content"}, at least one of them the assistant's."""

    where: str
    messages: Sequence[Mapping[str, object]]
    tools: Sequence[Mapping[str, object]] | None = None  # JSON schemas of what the assistant may call


Sample = Document | Completion | Conversation


@dataclass(frozen=True)
class Form:
    """The keys that make a sample of this form."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " and ".join(f'"{key}"' for key in self.required)

    @property
    def keys(self) -> tuple[str, ...]:
        return (*self.required, *self.optional)


_TEXT = Form(("text",))
_COMPLETION = Form(("prompt", "completion"))
_MESSAGES = Form(("messages",))
_ALPACA = Form(("instruction", "output"), ("input",))
_SHAREGPT = Form(("conversations",))
FORMS = (_TEXT, _COMPLETION, _MESSAGES, _ALPACA, _SHAREGPT)
_WANTED = f"give {', '.join(map(str, FORMS[:-1]))}, or {FORMS[-1]}"


def find_form(where: str, entry: dict) -> Form:
    """The form of a sample, by its keys; raises mebp.Error where they are of none or of several."""
    if "chosen" in entry and "rejected" in entry:
        reading = those_that(lambda traits: traits.form == "pairs")
        raise Error(
            f'{where}: has "chosen" and "rejected", a pair of which one is preferred; give --objective {reading}, or '
            'keep what is chosen, as "completion"'
        )
    begun = [form for form in FORMS if any(key in entry for key in form.keys)]
    if not begun:
        found = f"has {' and '.join(map(json.dumps, entry))}" if entry else "is empty"
        raise Error(f"{where}: {found}; {_WANTED}")
    if len(begun) > 1:
        both = " and ".join(f'"{next(key for key in form.keys if key in entry)}"' for form in begun[:2])
        raise Error(f"{where}: has both {both}; keep one of them")
    missing = next((key for key in begun[0].required if key not in entry), None)
    if missing:
        raise Error(f'{where}: has no "{missing}"; {_WANTED}')
    return begun[0]


def read_sample(where: str, form: Form, entry: dict) -> Sample:
    """The sample in `entry`, of the form that find_form gave; raises mebp.Error for a value of another type."""
    if form == _TEXT:
        return Document(where, read_string(where, entry, "text"))
    if form == _COMPLETION:
        prompt, completion = (read_string(where, entry, key) for key in form.required)
        if not completion:
            raise Error(f'{where}: "completion" is empty, so there is nothing to learn; leave it out')
        if entry.get("label") is False:
            raise Error(f'{where}: "label" is false, which marks a completion not to learn from; leave it out')
        return Completion(where, prompt, completion)
    turns = _alpaca_turns(where, entry) if form == _ALPACA else _turns(where, form.required[0], entry)
    if not any(turn["role"] == "assistant" for turn in turns):
        raise Error(f"{where}: has no turn of the assistant, so there is nothing to learn; leave it out")
    return Conversation(where, turns, read_tools(where, entry))


def read_tools(where: str, entry: dict) -> list[dict] | None:
    """What "tools" holds: a list of objects, or its JSON as a string, as tables have it."""
    tools = entry.get("tools") or None
    if isinstance(tools, str):
        try:
            tools = json.loads(tools) or None
        except (ValueError, RecursionError) as error:
            raise Error(f'{where}: "tools" is a string that is not JSON; give a list of objects') from error
    if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        found = "a list of something else" if isinstance(tools, list) else kind(tools)
        raise Error(f'{where}: "tools" is {found}; give a list of objects')
    check_value(f'{where}: "tools"', tools or [])
    return tools


def _alpaca_turns(where: str, entry: dict) -> list[dict]:
    if entry.get("history"):
        raise Error(f'{where}: "history" is not read; write the conversation as "messages"')
    instruction, answer = (read_string(where, entry, key) for key in _ALPACA.required)
    context = "" if entry.get("input") is None else read_string(where, entry, "input")
    if not answer:
        raise Error(f'{where}: "output" is empty, so there is nothing to learn; leave it out')
    question = "\n\n".join(part for part in (instruction, context) if part)
    return [
        *_system_turn(where, entry),
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer},
    ]


def _turns(where: str, key: str, entry: dict) -> list[dict]:
    if key == "messages":
        return read_messages(where, entry, key)
    return [*_system_turn(where, entry), *read_messages(where, entry, key, _SHAREGPT_TURN)]


def read_messages(where: str, entry: dict, key: str, wanted: str = _TURN) -> list[dict]:
    """The turns {"role", "content"} in entry[key]; raises mebp.Error for anything else there."""
    turns = entry[key]
    if not isinstance(turns, list):
        raise Error(f'{where}: "{key}" is {kind(turns)}; give a list of {wanted}')
    return [_turn(f"{where}: {key}[{index}]", turn, wanted) for index, turn in enumerate(turns)]


def _turn(place: str, turn: object, wanted: str) -> dict:
    if not isinstance(turn, dict):
        raise Error(f"{place} is {kind(turn)}; give {wanted}")
    is_sharegpt = wanted == _SHAREGPT_TURN and "role" not in turn
    calls = bool(turn.get("tool_calls"))  # which may stand for what is said
    for key in ("from", "value") if is_sharegpt else ("role", "content"):
        if key not in turn and not (key == "content" and calls):
            raise Error(f'{place} has no "{key}"; give {wanted}')
    if is_sharegpt:
        role, content = read_string(place, turn, "from"), _content(place, turn, "value")
        return {"role": _choice(place, role, _SHAREGPT_ROLES), "content": content}
    role = _choice(place, read_string(place, turn, "role"), {role: role for role in ROLES})
    if calls and turn.get("content") is None:
        return {**turn, "role": role}
    return {**turn, "role": role, "content": _content(place, turn, "content")}


def _choice(place: str, role: str, roles: Mapping[str, Value]) -> Value:
    if role not in roles:
        raise Error(f'{place} has the role "{role}"; choose one of {", ".join(roles)}')
    return roles[role]


def _system_turn(where: str, entry: dict) -> list[dict]:
    """What some files of these forms have beside the turns."""
    return [{"role": "system", "content": read_string(where, entry, "system")}] if entry.get("system") else []


def _content(place: str, turn: dict, key: str) -> str:
    """A turn's text, also where it is in parts {"type": "text", "text"}."""
    if not isinstance(turn[key], list):
        return read_string(place, turn, key)
    texts = []
    for index, part in enumerate(turn[key]):
        part_place = f"{place}: {key}[{index}]"
        if not isinstance(part, dict):
            raise Error(f'{part_place} is {kind(part)}; give {{"type": "text", "text": "..."}}')
        if part.get("type") != "text" or "text" not in part:
            raise Error(f'{part_place} is not {{"type": "text", "text": "..."}}; mebp trains on text alone')
        texts.append(read_string(part_place, part, "text"))
    return "".join(texts)


def read_string(where: str, entry: dict, key: str) -> str:
    """The text in entry[key]; raises mebp.Error for anything else there."""
    value = entry[key]
    if not isinstance(value, str):
        raise Error(f'{where}: "{key}" is {kind(value)}; give a string')
    return value


def kind(value: object) -> str:
    """What a value of JSON is, in words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
