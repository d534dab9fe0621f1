# SPDX-License-Identifier: Apache-2.0
"""Completions that the model writes for a reward to score: several of a prompt, side by side where the bundle has room.

Each token is drawn by a counter-based generator whose key says which it is: seed, rollout, prompt, member of the group
and position. So a text depends on nothing else: not on threads, not on how many are written side by side, not on
whether the run was stopped in between.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from mebp.data.prompts import Prompt
from mebp.data.rollouts import Completion, Rollout
from mebp.data.turn_ends import PromptEnds
from mebp.errors import Error
from mebp.generation import Kept, Recomputed, Sampler, new_tokens
from mebp.numbers import whole_number
from mebp.rewards import StoppedError
from mebp.session import Session
from mebp.tokenizer import Tokenizer

MOST_WRITTEN = 256  # tokens of a completion, where nobody says


@dataclass(frozen=True)
class RolloutOptions:
    """How completions are written. Raises mebp.Error for what is invalid."""

    group: int = 8  # completions of a prompt
    temperature: float = 1.0
    max_completion: int | None = None  # tokens; None for as many as there is room for, up to 256
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    def __post_init__(self) -> None:
        whole_number("group", self.group, at_least=1)
        if self.temperature == 0:
            raise Error("temperature is 0, so all completions of a prompt would be the same; give one above 0")
        self.sampler(None)
        if self.max_completion is not None:
            whole_number("max_completion", self.max_completion, at_least=1)

    def sampler(self, draws: object) -> Sampler:
        return Sampler(self.temperature, self.top_k, self.top_p, min_p=self.min_p, draws=draws)

    def most(self, length: int) -> int:
        """Tokens of a completion, of a bundle that takes `length`."""
        return self.max_completion or min(MOST_WRITTEN, length // 2)


@dataclass(frozen=True)
class EpisodeOptions(RolloutOptions):
    """The same with PPO's defaults, of TRL 1.12."""

    group: int = 1
    temperature: float = 0.7


class _Draws:
    """One number for each row and each call, by what it is drawn for."""

    def __init__(self, seed: int, number: int, prompt: int, members: range) -> None:
        self._key, self._members, self._position = (seed, number), members, 0
        self._prompt = prompt

    def __call__(self, rows: int) -> np.ndarray:
        self._position += 1
        counters = [(0, self._prompt, member, self._position) for member in self._members[:rows]]
        return np.array(
            [np.random.Generator(np.random.Philox(key=self._key, counter=each)).random() for each in counters]
        )


class _Watched:
    """A source of logits that keeps the last ones."""

    def __init__(self, source: Recomputed | Kept) -> None:
        self._source = source
        self.last = np.empty((0, 0))

    def logits(self, ids: np.ndarray, drafts: int = 0) -> np.ndarray:
        self.last = self._source.logits(ids, drafts)
        return self.last


class Writer:
    """Writes completions with a session, by its adapter as it is."""

    def __init__(
        self,
        session: Session,
        tokenizer: Tokenizer,
        options: RolloutOptions,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """stop: asked at each token; `write` raises StoppedError when it is true."""
        self._session, self._tokenizer, self._options, self._stop = session, tokenizer, options, stop
        self._ends = PromptEnds(tokenizer)

    def write(self, prompt: Prompt, seed: int, number: int, index: int) -> Rollout:
        """A group of completions of `prompt`, the `index`-th of rollout `number`.

        Raises mebp.Error where the prompt leaves no room.
        """
        session, options = self._session, self._options
        longest = min(session.max_positions, session.max_sequence)
        count = min(options.most(session.max_sequence), longest - len(prompt.ids))
        if count < 1:
            raise Error(
                f"{prompt.where}: the prompt has {len(prompt.ids)} tokens, which leaves no room for a completion in "
                f"{longest}; shorten it, or compile with a longer --seq-len"
            )
        completions = []
        for first in range(0, options.group, session.max_batch):
            members = range(first, min(first + session.max_batch, options.group))
            tokens, logps = self._side_by_side(prompt, count, _Draws(seed, number, index, members), len(members))
            completions += [
                self._completion(prompt, member, row, known)
                for member, row, known in zip(members, tokens, logps, strict=True)
            ]
        return Rollout(prompt, completions)

    def _side_by_side(
        self, prompt: Prompt, count: int, draws: _Draws, rows: int
    ) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray]]:
        """Tokens of each row, up to and with what ends it, and their log-probabilities as they were drawn from."""
        session = self._session
        source = _Watched(session.keys_and_values() if session.generates else Recomputed(session))
        ids = np.repeat(prompt.ids[None], rows, axis=0)
        chosen, logps = [], []
        stop = self._ends.after(prompt.written).stop
        for tokens in new_tokens(source, ids, count, stop, self._options.sampler(draws)):
            if self._stop():
                raise StoppedError
            scaled = source.last.astype(np.float64) / self._options.temperature
            scaled -= scaled.max(axis=1, keepdims=True)
            chosen.append(tokens.astype(np.int32))
            logps.append(scaled[np.arange(rows), tokens] - np.log(np.exp(scaled).sum(axis=1)))
        written, known = np.stack(chosen, axis=1), np.stack(logps, axis=1)
        ends = [_length(row, stop) for row in written]
        return tuple([row[:end] for row, end in zip(values, ends, strict=True)] for values in (written, known))

    def _completion(self, prompt: Prompt, member: int, ids: np.ndarray, logps: np.ndarray) -> Completion:
        text = self._tokenizer.decode(ids.tolist())
        where = f"{prompt.where}, completion {member + 1}"
        ones = np.ones(len(ids), dtype=bool)
        return Completion(where, text, ids, ones, np.minimum(logps, 0).astype(np.float32), None, None)


def _length(row: np.ndarray, stop: Collection[int]) -> int:
    """Up to and with what ends it."""
    ends = np.flatnonzero(np.isin(row, list(stop)))
    return int(ends[0]) + 1 if len(ends) else len(row)
