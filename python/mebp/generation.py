# SPDX-License-Identifier: Apache-2.0
"""Choosing tokens one after another: the likeliest, or drawn from what the model thinks of them."""

import math
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

import numpy as np

from mebp.errors import Error
from mebp.numbers import whole_number

if TYPE_CHECKING:
    from mebp.session import Session


class Sampler:
    """Chooses a token for each row of logits; two samplers with the same arguments choose the same."""

    def __init__(
        self,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        *,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        draws: Callable[[int], np.ndarray] | None = None,
    ):
        """As in Session.generate. Raises mebp.Error for an invalid value.

        draws: instead of `seed`: a number in [0, 1) for each of so many rows, each time it is called.
        """
        if not (_is_number(temperature) and 0 <= temperature < math.inf):
            raise Error(f"temperature is {temperature}; give a finite number of at least 0 (0: the likeliest token)")
        if top_k is not None:
            top_k = whole_number("top_k", top_k, at_least=1)
        for name, value in {"top_p": top_p, "min_p": min_p}.items():
            if value is not None and not (_is_number(value) and 0 < value <= 1):
                raise Error(f"{name} is {value}; give a number above 0 and up to 1")
        if not (_is_number(repetition_penalty) and 0 < repetition_penalty < math.inf):
            raise Error(f"repetition_penalty is {repetition_penalty}; give a finite number above 0 (1: none)")
        for name, value in {"top_k": top_k, "top_p": top_p, "min_p": min_p}.items():
            if value is not None and temperature == 0:
                raise Error(f"{name} needs a temperature above 0, since 0 always takes the likeliest token; try 1")
        self._temperature, self._top_k, self._top_p, self._min_p = float(temperature), top_k, top_p, min_p
        self._penalty = float(repetition_penalty)
        self._draws = draws or np.random.default_rng(whole_number("seed", seed, at_least=0)).random

    def choose(self, logits: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
        """int32 [batch], from logits [batch, vocabulary] after the tokens `before` [batch, sequence].

        Raises mebp.Error where a logit is not finite.
        """
        if not np.isfinite(logits).all():
            raise Error("the logits are not finite; load another adapter, trained with a lower learning rate")
        if self._penalty != 1 and before is not None:
            logits = self._penalise(logits, before)
        if self._temperature == 0:
            return logits.argmax(axis=-1).astype(np.int32)
        # One draw a row, the likeliest tokens first: what top_k, top_p and min_p leave is then a prefix.
        order = self._likeliest(logits)
        scaled = np.take_along_axis(logits, order, axis=-1).astype(np.float64)
        weights = np.exp((scaled - scaled[:, :1]) / self._temperature)
        cumulative = np.cumsum(weights / weights.sum(axis=-1, keepdims=True), axis=-1)
        kept = np.full(len(logits), order.shape[1])
        if self._top_p is not None:
            # As many as together first reach top_p, so the likeliest always stays.
            kept = np.minimum((cumulative < self._top_p).sum(axis=-1) + 1, kept)
        if self._min_p is not None:
            kept = np.minimum((weights >= self._min_p).sum(axis=-1), kept)  # the likeliest has weight 1
        rows = np.arange(len(logits))
        drawn = self._draws(len(logits)) * cumulative[rows, kept - 1]
        places = np.minimum((cumulative <= drawn[:, None]).sum(axis=-1), kept - 1)
        return order[rows, places].astype(np.int32)

    def _likeliest(self, logits: np.ndarray) -> np.ndarray:
        """The top_k likeliest tokens of each row, in that order, the lower number first where two are as likely."""
        if self._top_k is None or self._top_k >= logits.shape[1]:
            return np.argsort(-logits, axis=-1, kind="stable")
        # Sorting the whole vocabulary would take longer than computing a small model's logits.
        least = np.partition(logits, -self._top_k, axis=-1)[:, -self._top_k, None]
        candidates = [np.flatnonzero(row >= limit) for row, limit in zip(logits, least, strict=True)]
        return np.stack(
            [
                found[np.argsort(-row[found], kind="stable")][: self._top_k]
                for row, found in zip(logits, candidates, strict=True)
            ]
        )

    def _penalise(self, logits: np.ndarray, before: np.ndarray) -> np.ndarray:
        """As transformers: a logit of a token that was there is divided by the penalty, or multiplied if below 0."""
        logits = logits.copy()
        for row, tokens in zip(logits, before, strict=True):
            seen = row[tokens]
            row[tokens] = np.where(seen < 0, seen * self._penalty, seen / self._penalty)
        return logits


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.number))


class Recomputed:
    """The next token's logits, for a bundle without generation: all tokens are computed again for each."""

    def __init__(self, session: "Session") -> None:
        self._session = session

    def logits(self, ids: np.ndarray) -> np.ndarray:
        """float32 [batch, vocabulary], of the token after ids [batch, sequence]."""
        return self._session.logits(ids, first=ids.shape[1] - 1)[:, 0]


class Kept:
    """The next token's logits by the keys and values of those before, which stay from one call to the next: what two
    calls have in common at their beginning is computed once."""

    def __init__(self, native: object) -> None:
        """`native`: the runtime's Generation."""
        self._native = native
        self._ids = np.empty((0, 0), dtype=np.int32)  # whose keys and values are there

    def logits(self, ids: np.ndarray) -> np.ndarray:
        """float32 [batch, vocabulary], of the token after ids [batch, sequence]."""
        common = self._native.rewind(self._common(ids))
        self._ids = ids
        try:
            # Samples of one prompt: it is computed once.
            if common == 0 and len(ids) > 1 and (ids == ids[0]).all():
                logits = self._native.append(ids[:1])
                self._native.spread(len(ids))
                return np.repeat(logits, len(ids), axis=0)
            return self._native.append(np.ascontiguousarray(ids[:, common:]))
        except BaseException:
            self._ids = np.empty((0, 0), dtype=np.int32)
            raise

    def _common(self, ids: np.ndarray) -> int:
        """How many tokens need not be computed. The last one is: its logits are asked for."""
        if len(self._ids) != len(ids):
            return 0
        longest = min(self._ids.shape[1], ids.shape[1] - 1)
        differs = (self._ids[:, :longest] != ids[:, :longest]).any(axis=0)
        return int(differs.argmax()) if differs.any() else longest


def new_tokens(
    source: Recomputed | Kept,
    ids: np.ndarray,
    count: int,
    ends: Collection[int],
    sampler: Sampler,
    finishes: Callable[[int, int], bool] = lambda row, token: False,
) -> Iterator[np.ndarray]:
    """Yields int32 [batch] up to `count` times, as soon as each is chosen, after the prompts `ids` [batch, sequence].

    A row that has come to one of `ends`, or that `finishes` with a token, repeats it; when all have, it stops.
    """
    finished = np.zeros(len(ids), dtype=bool)
    for _ in range(count):
        chosen = sampler.choose(source.logits(ids), ids)
        chosen = np.where(finished, ids[:, -1], chosen)
        finished |= np.isin(chosen, list(ends))
        for row in np.flatnonzero(~finished):
            finished[row] = finishes(int(row), int(chosen[row]))
        yield chosen
        if finished.all():
            return
        ids = np.concatenate([ids, chosen[:, None]], axis=1)


def end_tokens(ends: int | Collection[int] | None, vocabulary: int) -> set[int]:
    """One id, several or none, checked to be in the vocabulary."""
    given = [] if ends is None else [ends] if not isinstance(ends, Collection) else ends
    checked = {whole_number("eos_token_id", end, at_least=0) for end in given}
    beyond = next((end for end in checked if end >= vocabulary), None)
    if beyond is not None:
        raise Error(f"eos_token_id {beyond} is beyond the vocabulary of {vocabulary}; use the tokenizer's")
    return checked
