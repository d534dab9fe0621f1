# SPDX-License-Identifier: Apache-2.0
"""Choosing tokens one after another: the likeliest, or drawn from what the model thinks of them."""

import math
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import numpy as np

from mebp.errors import Error
from mebp.numbers import whole_number

if TYPE_CHECKING:
    from mebp.session import Session


class Sampler:
    """Chooses a token for each row of logits; two samplers with the same arguments choose the same."""

    def __init__(self, temperature: float = 0.0, top_k: int | None = None, top_p: float | None = None, seed: int = 0):
        """As in Session.generate. Raises mebp.Error for an invalid value."""
        if not (isinstance(temperature, (int, float, np.number)) and 0 <= temperature < math.inf):
            raise Error(f"temperature is {temperature}; give a finite number of at least 0 (0: the likeliest token)")
        if top_k is not None:
            top_k = whole_number("top_k", top_k, at_least=1)
        if top_p is not None and not (isinstance(top_p, (int, float, np.number)) and 0 < top_p <= 1):
            raise Error(f"top_p is {top_p}; give a number above 0 and up to 1")
        for name, value in {"top_k": top_k, "top_p": top_p}.items():
            if value is not None and temperature == 0:
                raise Error(f"{name} needs a temperature above 0, since 0 always takes the likeliest token; try 1")
        self._temperature, self._top_k, self._top_p = float(temperature), top_k, top_p
        self._generator = np.random.default_rng(whole_number("seed", seed, at_least=0))

    def choose(self, logits: np.ndarray) -> np.ndarray:
        """int32 [batch], from logits [batch, vocabulary]. Raises mebp.Error where a logit is not finite."""
        if not np.isfinite(logits).all():
            raise Error("the logits are not finite; load another adapter, trained with a lower learning rate")
        if self._temperature == 0:
            return logits.argmax(axis=-1).astype(np.int32)
        # One draw a row, the likeliest tokens first: what top_k and top_p leave is then a prefix.
        order = np.argsort(-logits, axis=-1, kind="stable")[:, : self._top_k]
        scaled = np.take_along_axis(logits, order, axis=-1).astype(np.float64)
        weights = np.exp((scaled - scaled[:, :1]) / self._temperature)
        cumulative = np.cumsum(weights / weights.sum(axis=-1, keepdims=True), axis=-1)
        kept = np.full(len(logits), order.shape[1])
        if self._top_p is not None:
            # As many as together first reach top_p, so the likeliest always stays.
            kept = np.minimum((cumulative < self._top_p).sum(axis=-1) + 1, kept)
        rows = np.arange(len(logits))
        drawn = self._generator.random(len(logits)) * cumulative[rows, kept - 1]
        places = np.minimum((cumulative <= drawn[:, None]).sum(axis=-1), kept - 1)
        return order[rows, places].astype(np.int32)


def new_tokens(
    session: "Session",
    ids: np.ndarray,
    count: int,
    ends: Collection[int],
    sampler: Sampler,
) -> Iterator[np.ndarray]:
    """Yields int32 [batch] up to `count` times, as soon as each is chosen, after the prompts `ids` [batch, sequence].

    A row that has come to one of `ends` repeats it; when all have, it stops.
    """
    finished = np.zeros(len(ids), dtype=bool)
    for _ in range(count):
        chosen = sampler.choose(session.logits(ids, first=ids.shape[1] - 1)[:, 0])
        chosen = np.where(finished, ids[:, -1], chosen)
        finished |= np.isin(chosen, list(ends))
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
