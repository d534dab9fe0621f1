# SPDX-License-Identifier: Apache-2.0
"""Rows that the C++ of runtime/text/data makes of a file, with the tokens of Python's tokenizer."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data.chat_template import ChatTemplate
from mebp.data.conversations import conversation_row, find_turns
from mebp.data.counting import Counting
from mebp.data.forms import Conversation
from mebp.data.loading import load_dataset
from mebp.data.sharing import Sharing
from mebp.data.sources import Source
from mebp.data.turn_ends import turn_ends
from mebp.errors import Error
from mebp.tokenizer import Tokenizer
from mebp.tools import find_tool

Step = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # ids, labels, starts


@dataclass(frozen=True)
class Run:
    """As a run is asked to take a file's rows."""

    file: Path
    length: int = 64
    shares: bool = False
    seed: int = 0
    batch: int = 2
    loss_on: str = "assistant"
    steps: int = 3

    @property
    def counting(self) -> Counting:
        return Counting.read(None if self.loss_on == "assistant" else self.loss_on, None, None)

    def by_python(self, tokenizer: Tokenizer) -> tuple[list[Step], list[str]]:
        """Its steps, and what it says of the file."""
        source = Source.of(self.file, counting=self.counting)
        data = load_dataset(source, tokenizer, self.length, Sharing(self.seed) if self.shares else None)
        steps = [data.step_batches(number, self.batch, 1, self.seed) for number in range(self.steps)]
        return [(ids[0], labels[0], starts and starts[0]) for ids, labels, starts in steps], list(data.notes)

    def by_runtime(self, tokenizer: Tokenizer) -> tuple[list[Step], list[str]]:
        """The same; raises mebp.Error where the runtime refuses the file."""
        options = (self.length, int(self.shares), self.seed, self.batch, self.steps, self.loss_on)
        tool = Path(find_tool("mebp-run")).resolve().parent / "text_data_rows"
        command = [str(tool), str(self.file), *map(str, options)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

            def answer(words: object) -> None:
                print(*words, file=process.stdin, flush=True)

            answer(tokenizer.before_text)
            answer((tokenizer.end_of_text, tokenizer.end_of_sequence))
            answer(sorted(tokenizer.stop_tokens))
            return self._listen(process, answer, tokenizer)

    def _listen(self, process, answer, tokenizer: Tokenizer) -> tuple[list[Step], list[str]]:
        steps, notes, numbers, composer = [], [], {}, None
        for line in process.stdout:
            kind, _, rest = line.rstrip("\n").partition(" ")
            if kind == "encode":
                answer(tokenizer.encode(bytes.fromhex(rest).decode()))
            elif kind == "compose":
                composer = composer or Composer(self.file, tokenizer)
                answer(composer.composed(rest.split()))
            elif kind == "note":
                notes.append(rest)
            elif kind == "refused":
                raise Error(rest)
            else:
                numbers[kind] = np.array(rest.split(), np.int32)
                if kind == "starts":
                    shape = tuple(numbers["step"])
                    found = [
                        numbers[name].reshape(shape) if len(numbers[name]) else None
                        for name in ("ids", "labels", "starts")
                    ]
                    steps.append(tuple(found))
        return steps, notes


class Composer:
    """Python's tokens of conversations."""

    def __init__(self, file: Path, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._template = tokenizer, ChatTemplate.of_data(tokenizer, [file])
        self._ends = turn_ends(tokenizer, self._template)

    def composed(self, words: list[str]) -> list[str]:
        everything, *turns = words
        messages, masked = [], set()
        for index, turn in enumerate(turns):
            role, is_learned, content = turn.split(":")
            messages.append({"role": role, "content": bytes.fromhex(content).decode()})
            if role == "assistant" and is_learned == "0":
                masked.add(index)
        counting = Counting.read("all" if everything == "1" else None, None, None)
        sample = Conversation("composed", messages, masked=frozenset(masked))
        found = next(find_turns([sample], self._template, self._ends, counting.on))
        row = conversation_row(found, self._tokenizer, self._ends, counting)
        return [
            f"{token}{'+' if label != IGNORED_LABEL else ''}"
            for token, label in zip(row.ids.tolist(), row.labels.tolist(), strict=True)
        ]
