# SPDX-License-Identifier: Apache-2.0
"""The forms that a sample of JSON may have."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from mebp.data.json_values import check_value, kind, read_string
from mebp.data.marks import is_mark, weight_of
from mebp.data.turns import SHAREGPT_TURN, TURN, Message, Turns, read_messages, read_turns
from mebp.errors import Error
from mebp.objective_traits import those_that


@dataclass(frozen=True)
class _Sample:
    where: str  # the file, and the line where there are several
    learned: bool = field(default=True, kw_only=True)  # False: its mark says that it is not to be learned
    weight: float = field(default=1.0, kw_only=True)  # what all of it is multiplied by
    unread: frozenset[str] = field(default=frozenset(), kw_only=True, compare=False)  # keys that nobody reads


@dataclass(frozen=True)
class Document(_Sample):
    """A text on its own."""

    text: str


@dataclass(frozen=True)
class Completion(_Sample):
    """A prompt, and how it goes on."""

    prompt: str
    completion: str


@dataclass(frozen=True)
class Conversation(_Sample):
    """Turns {"role", "content"}, at least one of them the assistant's."""

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, object]] | None = None  # JSON schemas of what the assistant may call
    masked: frozenset[int] = frozenset()  # turns of the assistant that are context, and not learned
    prompted: int = 0  # turns that are a prompt by the sample's form; the assistant's among them are masked
    weights: Mapping[int, float] = field(default_factory=dict)  # of turns of the assistant that count by others than 1


Sample = Document | Completion | Conversation


@dataclass(frozen=True)
class Form:
    """The keys that make a sample of this form. `beside` are those of other forms that may stand there, too."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " and ".join(f'"{key}"' for key in self.required)

    @property
    def keys(self) -> tuple[str, ...]:
        return (*self.required, *self.optional)


_TEXT = Form(("text",))
_COMPLETION = Form(("prompt", "completion"))
_MESSAGES = Form(("messages",), ("tools",))
# Both come with "text" beside them: the same sample, put into somebody's template.
_ALPACA = Form(("instruction", "output"), ("input", "system", "tools"), ("text",))
_DOLLY = Form(("instruction", "response"), ("context", "system", "tools"), ("text", "category"))
_QUESTION = Form(("question", "answer"), ("system",))
_INPUT_OUTPUT = Form(("input", "output"), ("system",))
_SHAREGPT = Form(("conversations",), ("system", "tools"))
FORMS = (_TEXT, _COMPLETION, _MESSAGES, _ALPACA, _DOLLY, _QUESTION, _INPUT_OUTPUT, _SHAREGPT)
_SPOKEN = (_ALPACA, _DOLLY, _QUESTION, _INPUT_OUTPUT)  # what is asked, and what is answered
_CONTEXT = {_ALPACA: "input", _DOLLY: "context"}
_WANTED = f"give {', '.join(map(str, FORMS[:-1]))}, or {FORMS[-1]}, or name your columns with --columns"


def find_form(where: str, entry: Mapping[str, object]) -> Form:
    """The form of a sample, by its keys; raises mebp.Error where they are of none or of several."""
    if "chosen" in entry and "rejected" in entry:
        reading = those_that(lambda traits: traits.form == "pairs")
        raise Error(
            f'{where}: has "chosen" and "rejected", a pair of which one is preferred; train on it with mebp train '
            f'--objective {reading}, or keep what is chosen, as "completion"'
        )
    found, foreign = _form_of_keys(tuple(entry))
    if found is None:
        _refuse(where, entry)
    if foreign:
        raise Error(f'{where}: has both "{found.required[0]}" and "{foreign}"; keep one of them')
    return found


@lru_cache
def _form_of_keys(keys: tuple[str, ...]) -> tuple[Form | None, str | None]:
    """The form that says most, and a key of another one, if all of that are there, too."""
    whole = [form for form in FORMS if all(key in keys for key in form.required)]
    # One with more keys says more: Alpaca's has those of {"input", "output"}.
    found = max(whole, key=lambda form: len([key for key in (*form.keys, *form.beside) if key in keys]), default=None)
    for form in whole:
        foreign = next((key for key in form.required if key not in (*found.keys, *found.beside)), None)
        if foreign:
            return found, foreign
    return found, None


def is_conversation(entry: Mapping[str, object]) -> bool:
    """Whether an object of any objective's data has turns, or what a chat template makes turns of."""
    if "messages" in entry or "conversations" in entry:
        return True
    if "prompt" in entry or "chosen" in entry:
        return isinstance(entry.get("prompt", entry.get("chosen")), list)
    return _form_of_keys(tuple(entry))[0] in _SPOKEN


def _refuse(where: str, entry: Mapping[str, object]) -> None:
    begun = max(FORMS, key=lambda form: len([key for key in form.required if key in entry]))
    missing = [key for key in begun.required if key not in entry]
    if len(missing) < len(begun.required):
        raise Error(f'{where}: has no "{missing[0]}"; {_WANTED}')
    found = f"has {' and '.join(map(json.dumps, entry))}" if entry else "is empty"
    raise Error(f"{where}: {found}; {_WANTED}")


def read_sample(where: str, form: Form, entry: Mapping[str, object], weighs: bool = False) -> Sample:
    """The sample in `entry`, of the form that find_form gave; raises mebp.Error for a value of another type.

    weighs: whether marks may be other numbers than 0 and 1, which multiply.
    """
    known = (*form.keys, *form.beside)
    others = {key: value for key, value in entry.items() if key not in known and value is not None}
    unread = frozenset(key for key, value in others.items() if not is_mark(key, value))
    weight = weight_of(where, entry, None if form == _TEXT else weighs)
    common = {"learned": weight > 0, "unread": unread, "weight": weight or 1.0}
    if form == _TEXT:
        return Document(where, read_string(where, entry, "text"), **common)
    if form == _COMPLETION and not isinstance(entry["prompt"], list):
        prompt, completion = (read_string(where, entry, key) for key in form.required)
        if not completion:
            raise Error(f'{where}: "completion" is empty, so there is nothing to learn; leave it out')
        return Completion(where, prompt, completion, **common)
    turns = _turns(where, form, entry, weighs)
    if not any(turn["role"] == "assistant" for turn in turns.messages):
        raise Error(f"{where}: has no turn of the assistant, so there is nothing to learn; leave it out")
    answers = {index for index, turn in enumerate(turns.messages) if turn["role"] == "assistant"}
    common["learned"] &= answers > turns.masked
    prompted = len(turns.messages) - len(entry["completion"]) if form == _COMPLETION else 0
    tools = read_tools(where, entry)
    return Conversation(where, turns.messages, tools, turns.masked, prompted, turns.weights, **common)


def read_tools(where: str, entry: Mapping[str, object]) -> list[dict] | None:
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


def _turns(where: str, form: Form, entry: Mapping[str, object], weighs: bool) -> Turns:
    if form in _SPOKEN:
        return Turns([*_system_turn(where, entry), *_asked_and_answered(where, form, entry)])
    if form == _MESSAGES:
        return read_turns(where, entry, "messages", TURN, weighs)
    if form == _COMPLETION:
        return _completed(where, entry, weighs)
    return _behind(_system_turn(where, entry), read_turns(where, entry, "conversations", SHAREGPT_TURN, weighs))


def _behind(before: Sequence[Message], turns: Turns) -> Turns:
    masked = frozenset(index + len(before) for index in turns.masked)
    weights = {index + len(before): weight for index, weight in turns.weights.items()}
    return Turns([*before, *turns.messages], masked, weights)


def _asked_and_answered(where: str, form: Form, entry: Mapping[str, object]) -> list[Message]:
    if form == _ALPACA and entry.get("history"):
        raise Error(f'{where}: "history" is not read; write the conversation as "messages"')
    answered = form.required[1]
    question, answer = (read_string(where, entry, key) for key in form.required)
    if not answer:
        raise Error(f'{where}: "{answered}" is empty, so there is nothing to learn; leave it out')
    context = _CONTEXT.get(form)
    if context and entry.get(context) is not None:
        question = "\n\n".join(part for part in (question, read_string(where, entry, context)) if part)
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def _completed(where: str, entry: Mapping[str, object], weighs: bool) -> Turns:
    """TRL's prompt and completion of messages: only the completion is learned."""
    if not isinstance(entry["completion"], list):
        raise Error(f'{where}: "prompt" is messages where "completion" is {kind(entry["completion"])}; give both alike')
    prompt, completion = read_messages(where, entry, "prompt"), read_turns(where, entry, "completion", TURN, weighs)
    if not any(message["role"] == "assistant" for message in completion.messages):
        raise Error(f'{where}: "completion" has no turn of the assistant, so there is nothing to learn; leave it out')
    context = {index for index, message in enumerate(prompt) if message["role"] == "assistant"}
    turns = _behind(prompt, completion)
    return replace(turns, masked=turns.masked | context)


def _system_turn(where: str, entry: Mapping[str, object]) -> list[Message]:
    """What some files of these forms have beside the turns."""
    return [{"role": "system", "content": read_string(where, entry, "system")}] if entry.get("system") else []
