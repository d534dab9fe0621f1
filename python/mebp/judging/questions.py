# SPDX-License-Identifier: Apache-2.0
"""Samples that a model is judged on: what is asked, how it goes on, and what is right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mebp.data.forms import Completion, Conversation, find_form, read_sample, read_tools
from mebp.data.prompt_text import PromptText, Written, check_kept_out, read_written
from mebp.data.reading import json_objects
from mebp.data.sources import Source
from mebp.data.turns import read_messages
from mebp.errors import Error
from mebp.judging.checks import ANSWER, CHOICES, KEYS, Check, Choices, read_check

_WANTED = 'give "prompt" or "messages", and what is right as "accept", "match" or "choices"'


@dataclass(frozen=True)
class Question:
    where: str  # the file, and the line
    text: PromptText
    sample: Completion | Conversation | None  # with the right answer, whose loss is measured
    check: Check | None
    columns: Mapping[str, object]  # what else the line has, for a function that judges

    @property
    def shown(self) -> str:
        """The last that is asked."""
        prompt = self.text.prompt
        return prompt.strip() if isinstance(prompt, str) else str(prompt[-1].get("content", ""))


def read_questions(source: Source, judged: bool = False) -> list[Question]:
    """All samples of a file of JSON lines or a table. Each has a form that `mebp train` takes, or "prompt" alone.

    judged: whether a function judges the answers, whatever the samples say.
    Raises mebp.Error, with the line, for a sample of which nothing can be measured.
    """
    entries = list(json_objects(source))
    names = list(dict.fromkeys(name for _, entry in entries for name in entry if name != "prompt"))
    found = [_read(where, entry, judged) for where, entry in entries]
    return [
        replace(question, columns={name: entry.get(name) for name in names})
        for question, (_, entry) in zip(found, entries, strict=True)
    ]


def _read(where: str, entry: dict, judged: bool) -> Question:
    check_kept_out(where, entry)
    prompt, written = _asked(where, entry)
    check = read_check(where, entry, written)
    if check is None and written is None and not judged:
        raise Error(f"{where}: says neither what is right nor how the answer goes; {_WANTED}")
    tools = read_tools(where, entry)
    sample: Completion | Conversation | None = None
    if written is not None and not isinstance(check, Choices):
        sample = _trained(where, entry)
    elif check is not None and check.right is not None:
        sample = _answered(where, prompt, check.right, tools)
    return Question(where, PromptText(where, prompt, tools), sample, check, {})


def _asked(where: str, entry: dict) -> tuple[Written, str | None]:
    """The prompt, and the answer that stands behind it in the sample."""
    if CHOICES in entry and "question" in entry:
        return [{"role": "user", "content": read_written(where, entry, "question")}], None
    if "messages" in entry and not any(
        isinstance(turn, dict) and turn.get("role") == "assistant" for turn in _list(entry["messages"])
    ):
        return _ends_with_a_question(where, read_messages(where, entry, "messages")), None
    if "prompt" in entry and "completion" not in entry:
        prompt = read_written(where, entry, "prompt")
        if not prompt:
            raise Error(f"{where}: the prompt is empty, so nothing can follow; leave the sample out")
        return prompt if isinstance(prompt, str) else _ends_with_a_question(where, prompt), None
    sample = _trained(where, entry)
    if isinstance(sample, Completion):
        return sample.prompt, sample.completion
    turns = list(sample.messages)
    while turns and turns[-1]["role"] != "assistant":
        turns.pop()  # what nobody has answered
    return _ends_with_a_question(where, turns[:-1]), str(turns[-1].get("content") or "")


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _ends_with_a_question(where: str, turns: Sequence[Mapping[str, object]]) -> Written:
    if not turns or turns[-1]["role"] not in ("user", "tool"):
        found = f'ends with a turn of "{turns[-1]["role"]}"' if turns else "is empty"
        raise Error(f"{where}: what is asked {found}; end it with one of the user")
    return turns


def _trained(where: str, entry: dict) -> Completion | Conversation:
    """As `mebp train` reads it."""
    others = {key: value for key, value in entry.items() if key not in KEYS}
    if "question" not in others:
        others.pop(ANSWER, None)
    sample = read_sample(where, find_form(where, others), others, weighs=True)  # which the questions' own loss ignores
    if not isinstance(sample, Completion | Conversation):
        raise Error(f"{where}: is a text on its own, which asks nothing; {_WANTED}, or give the file with --also")
    return sample


def _answered(where: str, prompt: Written, answer: str, tools: Sequence[dict] | None) -> Completion | Conversation:
    if isinstance(prompt, str):
        return Completion(where, prompt, answer)
    return Conversation(where, [*prompt, {"role": "assistant", "content": answer}], tools)
