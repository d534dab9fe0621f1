# SPDX-License-Identifier: Apache-2.0
"""Turns of a conversation, in OpenAI's form {"role", "content"} and in ShareGPT's {"from", "value"}."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mebp.data.json_values import kind, parse_json, read_string
from mebp.data.marks import is_mark, weight_of
from mebp.errors import Error

ROLES = ("system", "developer", "user", "assistant", "tool")
Message = Mapping[str, object]

TURN = '{"role", "content"}'
SHAREGPT_TURN = '{"from", "value"}'
_FUNCTION_CALL = "function_call"  # of LLaMA-Factory: a turn of the assistant, whose value is the call in JSON
_SHAREGPT_ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    _FUNCTION_CALL: "assistant",
    "tool": "tool",
    "observation": "tool",
}
_CALL = '{"name", "arguments"}'


@dataclass(frozen=True)
class Turns:
    """Turns as a chat template takes them, and the places of the assistant's that are marked as not to be learned, or
    count by another weight than 1."""

    messages: Sequence[Message]
    masked: frozenset[int] = frozenset()
    weights: Mapping[int, float] = field(default_factory=dict)


def read_turns(
    where: str, entry: Mapping[str, object], key: str, wanted: str = TURN, weighs: bool | None = None
) -> Turns:
    """The turns in entry[key]; raises mebp.Error for anything else there. weighs: as weight_of has it."""
    turns = entry[key]
    if not isinstance(turns, list):
        raise Error(f'{where}: "{key}" is {kind(turns)}; give a list of {wanted}')
    places = [f"{where}: {key}[{index}]" for index in range(len(turns))]
    messages = [_turn(place, turn, wanted) for place, turn in zip(places, turns, strict=True)]
    weights = {
        index: weight_of(place, turn, weighs)
        for index, (place, turn) in enumerate(zip(places, turns, strict=True))
        if messages[index]["role"] == "assistant"
    }
    masked = frozenset(index for index, weight in weights.items() if not weight)
    return Turns(messages, masked, {index: weight for index, weight in weights.items() if weight not in (0, 1)})


def read_messages(where: str, entry: Mapping[str, object], key: str) -> Sequence[Message]:
    """The turns {"role", "content"} in entry[key], where marks have no meaning."""
    return read_turns(where, entry, key).messages


def _turn(place: str, turn: object, wanted: str) -> dict:
    if not isinstance(turn, dict):
        raise Error(f"{place} is {kind(turn)}; give {wanted}")
    # Tables fill up what a turn lacks with null.
    stated = {key: value for key, value in turn.items() if value is not None and not is_mark(key, value)}
    if wanted == SHAREGPT_TURN and "role" not in turn:
        return _sharegpt_turn(place, turn, stated)
    calls = _tool_calls(place, stated) if stated.get("tool_calls") else None
    for key in ("role", "content"):
        if key not in turn and not (key == "content" and calls):
            raise Error(f'{place} has no "{key}"; give {wanted}')
    stated["role"] = _role(place, read_string(place, turn, "role"), {role: role for role in ROLES})
    if calls:
        stated["tool_calls"] = calls
        if turn.get("content") is None:
            return {**stated, **({"content": None} if "content" in turn else {})}
    return {**stated, "content": _content(place, turn, "content")}


def _sharegpt_turn(place: str, turn: Mapping[str, object], stated: Mapping[str, object]) -> dict:
    for key in ("from", "value"):
        if key not in turn:
            raise Error(f'{place} has no "{key}"; give {SHAREGPT_TURN}')
    named = read_string(place, turn, "from")
    rest = {key: value for key, value in stated.items() if key not in ("from", "value")}
    role = _role(place, named, _SHAREGPT_ROLES)
    if named == _FUNCTION_CALL:
        return {"role": role, **rest, "content": None, "tool_calls": _called(place, turn)}
    return {"role": role, "content": _content(place, turn, "value"), **rest}


def _role(place: str, role: str, roles: Mapping[str, str]) -> str:
    if role not in roles:
        raise Error(f'{place} has the role "{role}"; choose one of {", ".join(roles)}')
    return roles[role]


def _content(place: str, turn: Mapping[str, object], key: str) -> str:
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


def _tool_calls(place: str, turn: Mapping[str, object]) -> list[dict]:
    """What templates expect: objects whose arguments are objects, where OpenAI's form has them as JSON in a text."""
    calls = parse_json(place, turn, "tool_calls")
    if not (isinstance(calls, list) and all(isinstance(call, dict) for call in calls)):
        raise Error(f'{place}: "tool_calls" is {kind(calls)}; give a list of {_CALL}')
    return [_tool_call(f"{place}: tool_calls[{index}]", call) for index, call in enumerate(calls)]


def _tool_call(place: str, call: dict) -> dict:
    if isinstance(call.get("function"), dict):
        return {**call, "function": _tool_call(f"{place}: function", call["function"])}
    if not isinstance(call.get("arguments"), str):
        return call
    arguments = parse_json(place, call, "arguments") if call["arguments"].strip() else {}
    if not isinstance(arguments, dict):
        raise Error(f'{place}: "arguments" is a text with {kind(arguments)}; give an object')
    return {**call, "arguments": arguments}


def _called(place: str, turn: Mapping[str, object]) -> list[dict]:
    found = parse_json(place, turn, "value")
    calls = found if isinstance(found, list) else [found]
    if not calls or not all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls):
        raise Error(f'{place}: "value" is not a call; give {_CALL}, or a list of them, in JSON')
    return [{"type": "function", "function": _tool_call(place, call)} for call in calls]
