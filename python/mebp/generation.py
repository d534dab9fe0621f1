# SPDX-License-Identifier: Apache-2.0
"""Choosing tokens one after another: the likeliest, or drawn from what the model thinks of them."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.numbers import check_argument, whole_number
from mebp.streaming import TextStream, stop_strings
from mebp.tokenizer import Tokenizer
from mebp.words import counted

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

    def logits(self, ids: np.ndarray, drafts: int = 0) -> np.ndarray:
        """float32 [batch, vocabulary], of the token after ids [batch, sequence]; drafts would save nothing."""
        return self._session.logits(ids, first=ids.shape[1] - 1)[:, 0]


class Kept:
    """The next token's logits by the keys and values of those before, which stay from one call to the next: what two
    calls have in common at their beginning is computed once."""

    def __init__(self, native: object, positions: int) -> None:
        """`native`: the runtime's Generation, which has room for so many positions."""
        self._native, self._positions = native, positions
        self._ids = np.empty((0, 0), dtype=np.int32)  # whose keys and values are there
        self._draft: list[int] = []  # what was computed behind them
        self._drafted = 0  # tokens of the last pass's draft that turned out to be right
        self.tokens = self.passes = 0  # computed after a prompt, so far

    @property
    def most_drafts(self) -> int:
        """That one pass takes beside the token before them."""
        return self._native.draft_limit() - 1

    def logits(self, ids: np.ndarray, drafts: int = 0) -> np.ndarray:
        """float32 [batch, vocabulary], of the token after ids [batch, sequence].

        drafts: of a single sequence, compute up to so many tokens ahead, where it has been as it is now before. When
        they are asked for, they are there; the numbers are the same.
        """
        if self._is_drafted(ids):
            self._ids, self._draft = ids, self._draft[1:]
            self._drafted += 1
            self.tokens += 1
            return self._native.draft_logits(self._drafted)
        common = self._common(ids)
        self._ids, self._draft, self._drafted = ids, [], 0
        try:
            common = self._native.rewind(common)
            if ids.shape[1] - common == 1 and common > 0:
                self.tokens, self.passes = self.tokens + 1, self.passes + 1
                if drafts:
                    return self._look_ahead(ids[0], drafts)
            # Samples of one prompt: it is computed once.
            if common == 0 and len(ids) > 1 and (ids == ids[0]).all():
                logits = self._native.append(ids[:1])
                self._native.spread(len(ids))
                return np.repeat(logits, len(ids), axis=0)
            return self._native.append(np.ascontiguousarray(ids[:, common:]))
        except BaseException:
            self._ids = np.empty((0, 0), dtype=np.int32)
            raise

    def _is_drafted(self, ids: np.ndarray) -> bool:
        before = self._ids.shape[1]
        return (
            bool(self._draft)
            and ids.shape == (1, before + 1)
            and ids[0, -1] == self._draft[0]
            and bool((ids[:, :before] == self._ids).all())
        )

    def _look_ahead(self, ids: np.ndarray, drafts: int) -> np.ndarray:
        wanted = min(drafts, self._positions - len(ids))
        draft = load_runtime().find_draft(np.ascontiguousarray(ids), wanted)
        self._native.append_draft(np.array([ids[-1], *draft], dtype=np.int32))
        self._draft = draft
        return self._native.draft_logits(0)

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
    drafts: int = 0,
) -> Iterator[np.ndarray]:
    """Yields int32 [batch] up to `count` times, as soon as each is chosen, after the prompts `ids` [batch, sequence].

    A row that has come to one of `ends`, or that `finishes` with a token, repeats it; when all have, it stops.
    """
    finished = np.zeros(len(ids), dtype=bool)
    for _ in range(count):
        chosen = sampler.choose(source.logits(ids, drafts), ids)
        chosen = np.where(finished, ids[:, -1], chosen)
        finished |= np.isin(chosen, list(ends))
        for row in np.flatnonzero(~finished):
            finished[row] = finishes(int(row), int(chosen[row]))
        yield chosen
        if finished.all():
            return
        ids = np.concatenate([ids, chosen[:, None]], axis=1)


def continue_prompts(
    session: "Session",
    ids: np.ndarray,
    count: int,
    sampler: Sampler,
    ends: int | Collection[int] | None,
    stop: str | Sequence[str] | None,
    callback: Callable[[np.ndarray], object] | None,
    source: Kept | None,
    drafts: int,
) -> np.ndarray:
    """Session.generate, with its arguments read: int64 [batch, sequence + n] from int32 [batch, sequence]."""
    check_argument("stop", stop, str | Sequence[str] | None)
    check_argument("callback", callback, Callable[..., object] | None)
    check_argument("source", source, Kept | None)
    _check_room(session, ids, count)
    finals = end_tokens(ends, session.vocabulary)
    streams = _streams(session, len(ids), stop)
    if drafts and not session.generates:
        raise Error("drafts need a bundle that keeps keys and values; compile it with --generate-len, or give none")
    if drafts and len(ids) > 1:
        raise Error(f"drafts are of one sequence at a time, and there are {len(ids)}; leave out samples or drafts")
    if source is None:
        source = session.keys_and_values() if session.generates else Recomputed(session)
    if drafts and drafts > source.most_drafts:
        raise Error(f"drafts is {drafts}, and the bundle computes up to {source.most_drafts} at once; give fewer")

    def finishes(row: int, token: int) -> bool:
        if not streams:
            return False
        streams[row].add(token)
        return streams[row].has_stopped

    columns = [ids.astype(np.int64)]
    for tokens in new_tokens(source, ids, count, finals, sampler, finishes, drafts):
        columns.append(tokens.astype(np.int64)[:, None])
        if callback is not None:
            callback(columns[-1][:, 0])
    return np.concatenate(columns, axis=1)


def _check_room(session: "Session", ids: np.ndarray, count: int) -> None:
    if ids.shape[1] + count > session.max_positions:
        option = "--generate-len" if session.generates else "--seq-len"
        raise Error(
            f"a prompt of {counted(ids.shape[1], 'token')} and {count} new ones exceed the compiled length of "
            f"{session.max_positions}; shorten them or compile with a longer {option}"
        )
    if len(ids) > session.max_batch:
        raise Error(
            f"{len(ids)} rows are more than the {session.max_batch} that the bundle was compiled for; compile with "
            f"--batch {len(ids)}"
        )


def _streams(session: "Session", rows: int, stop: str | Sequence[str] | None) -> list[TextStream]:
    stops = stop_strings(stop)
    if not stops:
        return []
    tokenizer = Tokenizer(session.path)
    return [TextStream(tokenizer.decode, stops) for _ in range(rows)]


def end_tokens(ends: int | Collection[int] | None, vocabulary: int) -> set[int]:
    """One id, several or none, checked to be in the vocabulary."""
    given = [] if ends is None else [ends] if not isinstance(ends, Collection) else ends
    checked = {whole_number("eos_token_id", end, at_least=0) for end in given}
    beyond = next((end for end in checked if end >= vocabulary), None)
    if beyond is not None:
        raise Error(f"eos_token_id {beyond} is beyond the vocabulary of {vocabulary}; use the tokenizer's")
    return checked
