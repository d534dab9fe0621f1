# SPDX-License-Identifier: Apache-2.0
"""What is given to a reward, and what it gives."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mebp.data.prompts import Prompt
from mebp.data.thoughts import split_thought
from mebp.errors import Error
from mebp.numbers import LARGEST_SCORE, as_float


@dataclass(frozen=True)
class Sampled:
    """A completion that the model wrote."""

    prompt: Prompt
    text: str  # without special tokens
    ids: Sequence[int]  # with the token that ends it, where there is one
    number: int = 1  # among the prompt's completions, from 1
    apart: tuple[str | None, str] | None = None  # what it thinks and what it answers; None: as the text has it

    @property
    def where(self) -> str:
        """As errors call it."""
        return f"{self.prompt.where}, completion {self.number}"

    @property
    def thought(self) -> str | None:
        """What the model wrote in its thought; None where it has none."""
        return (self.apart or split_thought(self.text))[0]

    @property
    def answer(self) -> str:
        """What it wrote behind that."""
        return (self.apart or split_thought(self.text))[1]

    @property
    def completion(self) -> str | list[dict]:
        """As TRL gives it: a text after a text, an assistant's turn after messages."""
        if isinstance(self.prompt.written, str):
            return self.text
        return [{"role": "assistant", "content": self.text}]


@dataclass(frozen=True)
class Progress:
    """Where training stands, by the names of transformers' TrainerState."""

    global_step: int = 0
    max_steps: int = 0


@dataclass
class Given:
    """One reward's answer."""

    rewards: list[object]  # one for each completion: a number, or None
    metrics: dict[str, list[float]] = field(default_factory=dict)  # what else it measured


class Reward(Protocol):
    """Scores all completions of a step at once; `name` is what errors and logs call it."""

    name: str

    def __call__(self, batch: Sequence[Sampled], progress: Progress) -> Given: ...


def checked(name: str, rewards: Sequence[object], batch: Sequence[Sampled]) -> list[float]:
    """The rewards as numbers, NaN where one is None; raises mebp.Error for anything else, and for another count."""
    if len(rewards) != len(batch):
        raise Error(
            f"reward {name}: gives {len(rewards):,} for {len(batch):,} completions, from {batch[0].prompt.where} on; "
            "give one each, or None"
        )
    numbers = []
    for value, one in zip(rewards, batch, strict=True):
        number = math.nan if value is None else as_float(value)
        if isinstance(value, str | bytes) or number is None:
            raise Error(f"reward {name}: gives {shown(value)} for {one.where}; give a number or None")
        if value is not None and not math.isfinite(number):
            raise Error(f"reward {name}: gives {number} for {one.where}; give a finite number, or None for none")
        if abs(number) > LARGEST_SCORE:
            raise Error(f"reward {name}: gives {number:g} for {one.where}; give one of at most {LARGEST_SCORE:g}")
        numbers.append(number)
    return numbers


def shown(value: object) -> str:
    """The beginning of what `value` is, also where Python refuses to write it, as it does with huge integers."""
    try:
        return f"{value!r:.60}"
    except Exception:  # whatever a user's class raises
        return f"a {type(value).__name__} that cannot be written"
