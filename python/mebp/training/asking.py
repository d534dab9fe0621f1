# SPDX-License-Identifier: Apache-2.0
"""Prompts that a run answers at each evaluation, so that one can read what it learns."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mebp.data.json_values import read_string
from mebp.data.prompt_text import PromptText, PromptTokens, read_written
from mebp.data.reading import has_conversations, json_objects
from mebp.data.sources import Source
from mebp.data.splits import ENDINGS
from mebp.data.stream import opened
from mebp.data.turn_ends import PromptEnds
from mebp.data.turns import read_messages
from mebp.errors import Error
from mebp.objective_traits import objectives
from mebp.rewards import StoppedError
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.options import TrainingOptions

ANSWER = 128  # tokens, where the bundle has room for so many
_TEXT = ("trainables", "workspace")  # of what generating takes: a session that trains has them already
_WANTED = 'has neither "prompt" nor "messages"; give one of them, or a text with a prompt a line'


@dataclass(frozen=True)
class Asked:
    """A prompt as it is shown, and in tokens."""

    text: str
    where: str
    ids: Sequence[int]
    stop: frozenset[int]


def prompts_of(options: TrainingOptions, tokenizer: Tokenizer) -> list[Asked]:
    """What --ask names. Raises mebp.Error, with the file and the line, for what cannot be asked."""
    if not options.ask:
        return []
    talks = has_conversations(options.data[0])  # whether a plain question is to be a turn of one
    found = [each for given in options.ask for each in _read(str(given), talks)]
    tokens = PromptTokens(options.data[0].files(), tokenizer)
    ends = PromptEnds(tokenizer)
    ids = [each for each, _ in tokens.read(found)]
    return [
        Asked(_shown(text), text.where, each, ends.after(text.prompt).stop)
        for text, each in zip(found, ids, strict=True)
    ]


def tokens_of_asking(options: TrainingOptions, tokenizer: Tokenizer) -> int:
    """Of the longest prompt with its answer; 0 where nothing is asked."""
    return max((len(each.ids) + ANSWER for each in prompts_of(options, tokenizer)), default=0)


def bytes_of_answers(plan: Mapping[str, object]) -> int:
    """What answering takes beside training, by a bundle's plan."""
    return sum(each["bytes"] for each in plan["generation"] if each["name"] not in _TEXT)


def bytes_asking(options: TrainingOptions, plan: Mapping[str, object]) -> int:
    """The same where the run asks, and has not that memory in any case."""
    if not options.ask or objectives()[options.objective].writes:  # what writes has that memory counted
        return 0
    return bytes_of_answers(plan)


def told_of_answers(options: TrainingOptions, plan: Mapping[str, object]) -> list[str]:
    """A line below a printed plan; none where nothing is asked."""
    beside = bytes_asking(options, plan)
    return [f"--ask: answers take {beside / 1e6:.2f} MB beside the peak"] if beside else []


class Asking:
    """The prompts of a run, which its session answers."""

    def __init__(self, options: TrainingOptions, session: Session, tokenizer: Tokenizer) -> None:
        """Raises mebp.Error where the bundle has no room for an answer."""
        self._session, self._tokenizer = session, tokenizer
        self._asked = prompts_of(options, self._tokenizer)
        for each in self._asked:
            if len(each.ids) >= session.max_positions:
                option = "--generate-len" if session.generates else "--seq-len"
                raise Error(
                    f"{each.where}: has {len(each.ids)} tokens, and the bundle takes {session.max_positions} with the "
                    f"answer; shorten it, or compile with a longer {option}"
                )

    def __bool__(self) -> bool:
        return bool(self._asked)

    def answers(self, stop: Callable[[], bool]) -> Iterator[tuple[str, str]]:
        """Each prompt with the likeliest answer of the session as it is; none after `stop()` became true, which a long
        answer does not wait for."""
        session = self._session

        def listen(tokens: object) -> None:
            if stop():
                raise StoppedError

        for each in self._asked:
            if stop():
                return
            count = min(ANSWER, session.max_positions - len(each.ids))
            try:
                written = session.generate([list(each.ids)], count, each.stop, callback=listen)
            except StoppedError:
                return
            yield each.text, self._tokenizer.decode(written[0, len(each.ids) :].tolist()).strip()


def asked_file(given: str) -> Path | None:
    """The file that --ask names; None of a text, which may be longer than a file's name can be."""
    path = os.path.expanduser(given)
    return Path(path) if os.path.isfile(path) else None


def _read(given: str, talks: bool) -> list[PromptText]:
    path = asked_file(given)
    if path is None:
        if given.endswith(ENDINGS) and not any(map(str.isspace, given)):
            raise Error(f"--ask {given}: there is no such file; check the path")
        if not given.strip():
            raise Error("--ask is empty; give a question, or a file of prompts")
        return [_plain("--ask", given, talks)]
    with opened(path) as file:
        is_json = bool(file.arrow) or file.head.lstrip()[:1] in ("{", "[") or path.suffix in (".csv", ".tsv")
        lines = [] if is_json else list(file.lines())
    if is_json:
        found = [_of_entry(where, entry) for where, entry in json_objects(Source.of(path))]
    else:
        found = [_plain(f"{path}:{number}", line, talks) for number, line in lines if line.strip()]
    if not found:
        raise Error(f"--ask {given}: is empty; write a prompt a line")
    return found


def _plain(where: str, text: str, talks: bool) -> PromptText:
    text = text.strip()
    return PromptText(where, [{"role": "user", "content": text}] if talks else text, None)


def _of_entry(where: str, entry: dict) -> PromptText:
    if "messages" in entry:
        turns = list(read_messages(where, entry, "messages"))
        while turns and turns[-1]["role"] == "assistant":
            turns.pop()
        if not turns:
            raise Error(f"{where}: nobody asks anything in it; leave it out")
        return PromptText(where, turns, None)
    if "prompt" in entry:
        written = read_written(where, entry, "prompt")
        return PromptText(where, written, None)
    if "text" in entry:
        return PromptText(where, read_string(where, entry, "text"), None)
    raise Error(f"{where}: {_WANTED}")


def _shown(text: PromptText) -> str:
    return text.prompt.strip() if isinstance(text.prompt, str) else str(text.prompt[-1].get("content", ""))
