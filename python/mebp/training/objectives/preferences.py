# SPDX-License-Identifier: Apache-2.0
"""Preference pairs (DPO and its relatives), with the memory of one sequence; pair_ways.py says how pairs are run."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.data.dataset import rows_of_step, steps_per_epoch
from mebp.data.preferences import Preference, load_preferences
from mebp.data.reference_file import ReferenceFile
from mebp.errors import Error
from mebp.inspect import inspect
from mebp.objectives.pairs import DPO, DPOOptions, PairResult, Scored
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.objective_options import parts_of
from mebp.training.objectives.base import ANY_LENGTH, Measured, Objective, Step, vocabulary_of
from mebp.training.objectives.continuation import Continuation
from mebp.training.objectives.pair_ways import (
    DEFERRED,
    INTERLEAVED,
    SCORED_FIRST,
    SHORT,
    PairWay,
    choose_way,
    gradient_bytes,
)
from mebp.training.objectives.references import Reference
from mebp.training.options import TrainingOptions
from mebp.words import counted

_METRICS = (
    *("rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins"),
    *("logps/chosen", "logps/rejected"),
)


@dataclass
class _OfPair(Continuation):
    other_length: int  # of the pair's other completion

    def padded(self, tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """ids and mask [1, tokens]; what comes behind is not scored."""
        room = ((0, 0), (0, tokens - self.ids.size))
        return np.pad(self.ids, room), np.pad(self.scored, room)


def _completions(pair: Preference) -> tuple[_OfPair, _OfPair]:
    """The chosen one, and the rejected one."""
    chosen, rejected = pair.chosen, pair.rejected
    return _OfPair(pair.prompt, chosen, len(rejected)), _OfPair(pair.prompt, rejected, len(chosen))


_Added = tuple[PairResult, tuple[Scored, Scored]]


class _Data:
    """Pairs with what the reference says of them."""

    def __init__(self, path: Path, tokenizer: Tokenizer, length: int, vocabulary: int) -> None:
        loaded = load_preferences(path, tokenizer, length, vocabulary)
        self.pairs, self.notes, self.digest = loaded.rows, loaded.notes, loaded.digest
        self.references: ReferenceFile | None = None

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Of each pair's sequences."""
        return [pair.lengths for pair in self.pairs]


class Preferences(Objective):
    metrics = _METRICS
    pairs_up_to = SHORT

    @classmethod
    def check_options(cls, options: TrainingOptions) -> None:
        loss = DPO(parts_of(options.objective, options.objective_options)[DPOOptions])
        if options.reference is not None and not loss.needs_reference:
            raise Error("--reference is compared with by other losses than sft; choose one, or leave it out")

    @classmethod
    def sequence_lengths(cls, options: TrainingOptions, tokenizer: Tokenizer) -> list[int]:
        paths = filter(None, (options.data, options.eval, options.test))
        data = [load_preferences(path, tokenizer, ANY_LENGTH) for path in paths]
        return [max(pair.lengths) for each in data for pair in each.rows]

    def __init__(self, options: TrainingOptions, tokenizer: Tokenizer, length: int) -> None:
        super().__init__(options)
        self._dpo = DPO(parts_of(options.objective, options.objective_options)[DPOOptions])
        named = {"train": options.data, "eval": options.eval, "test": options.test}
        vocabulary = vocabulary_of(options.bundle)
        self._data = {name: _Data(path, tokenizer, length, vocabulary) for name, path in named.items() if path}
        self.notes = [note for data in self._data.values() for note in data.notes]
        self.digest = self._data["train"].digest
        self._description = inspect(options.bundle)
        self._way = self._choose_way(has_room=True)

    def description(self) -> Mapping[str, object]:
        return {"--objective": self.options.objective, "--reference": self.options.reference, **self.own_options()}

    def session_options(self) -> Mapping[str, object]:
        return {"accumulate": True, "pending_gradients": self._way.room > 0}

    def saves_memory(self) -> bool:
        had_room, self._way = self._way.room > 0, self._choose_way(has_room=False)
        return had_room

    def begin(self, session: Session) -> Iterator[str]:
        yield from self.notes
        yield str(self._way)
        if not self._dpo.needs_reference:
            return
        self._reference = Reference(self.options)
        if self._reference.note:
            yield self._reference.note
        self._reference.begin(session)
        for name, data in self._data.items():
            lengths = [len(completion) for pair in data.pairs for completion in (pair.chosen, pair.rejected)]
            data.references = self._reference.kept(
                data.digest, lengths, self._reference.file if name == "train" else None
            )

    def _choose_way(self, has_room: bool) -> PairWay:
        rows = self._description["model"]["batch"]
        return choose_way(
            needs_batch=self._dpo.needs_batch,
            rows=rows,
            lengths=self._data["train"].lengths,
            several=self._pairs_per_step(rows) > 1,
            has_room=has_room,
            waiting=gradient_bytes(self._description),
        )

    def summary(self, session: Session) -> str:
        lengths = self._data["train"].lengths
        return f"{counted(len(lengths), 'pair')} of up to {max(map(max, lengths))} tokens"

    def _pairs_per_step(self, rows: int) -> int:
        """By rows of the bundle's batch."""
        return self.options.accumulate * max(1, rows // 2)

    def steps_per_epoch(self, session: Session) -> int:
        return steps_per_epoch(len(self._data["train"].pairs), self._pairs_per_step(session.max_batch))

    def step(self, session: Session, number: int) -> Step:
        begun, data = time.perf_counter(), self._data["train"]
        rows = rows_of_step(len(data.pairs), number, self._pairs_per_step(session.max_batch), self.options.seed)
        # Before the first sequence: the adapter is set aside where their gradients will be.
        references = [self._references(session, data, int(row)) for row in rows]
        pairs = [data.pairs[row] for row in rows]
        outcomes = self._add(session, pairs, references)
        result = session.apply()
        tokens = sum(len(pair.chosen) + len(pair.rejected) for pair in pairs)
        loss = sum(outcome.loss for outcome, _ in outcomes)
        metrics = _mean([self._dpo.metrics(*scored) for _, scored in outcomes])
        seen = tokens + 2 * sum(len(pair.prompt) for pair in pairs)
        return Step(result.of(loss, tokens, time.perf_counter() - begun), seen, metrics)

    def _add(self, session: Session, pairs: list[Preference], references: list[np.ndarray]) -> list[_Added]:
        """Adds the gradient of each pair; its share of the loss, and both completions as they were scored."""
        if self._dpo.needs_batch:
            return self._add_batch(session, pairs, references)
        ways = {
            DEFERRED: self._add_deferred,
            INTERLEAVED: self._add_interleaved,
            SCORED_FIRST: self._add_scored_first,
        }
        add = ways[self._way.name]
        tokens = sum(len(pair.chosen) for pair in pairs)
        return [
            add(session, pair, reference, len(pairs), tokens) for pair, reference in zip(pairs, references, strict=True)
        ]

    def _add_deferred(
        self, session: Session, pair: Preference, reference: np.ndarray, pairs: int, tokens: int
    ) -> _Added:
        won, lost = _completions(pair)
        first = session.sequence(won.ids, won.scored)
        chosen = self._score(won, first.logprobs, reference[0])
        first.backward(won.spread(self._weights(won)), pending=True)
        second = session.sequence(lost.ids, lost.scored)
        rejected = self._score(lost, second.logprobs, reference[1])
        result = self._dpo.pair(chosen, rejected, pairs, tokens)
        session.settle(result.chosen)
        second.backward(lost.spread(result.rejected * self._weights(lost)))
        return result, (chosen, rejected)

    def _add_interleaved(
        self, session: Session, pair: Preference, reference: np.ndarray, pairs: int, tokens: int
    ) -> _Added:
        both = _completions(pair)
        longest = max(each.ids.shape[1] for each in both)
        sequence = session.sequence(
            *(np.concatenate(rows) for rows in zip(*(each.padded(longest) for each in both), strict=True))
        )
        rows = [sequence.logprobs[row, : each.ids.shape[1] - 1] for row, each in enumerate(both)]
        chosen, rejected = (
            self._score(each, row[None], of) for each, row, of in zip(both, rows, reference, strict=True)
        )
        result = self._dpo.pair(chosen, rejected, pairs, tokens)
        coefficients = np.zeros_like(sequence.logprobs)
        for row, (each, factor) in enumerate(zip(both, (result.chosen, result.rejected), strict=True)):
            coefficients[row, : each.ids.shape[1] - 1] = each.spread(factor * self._weights(each))
        sequence.backward(coefficients)
        return result, (chosen, rejected)

    def _add_scored_first(
        self, session: Session, pair: Preference, reference: np.ndarray, pairs: int, tokens: int
    ) -> _Added:
        won, lost = _completions(pair)
        chosen = self._score(won, session.logprobs(won.ids, won.scored), reference[0])
        second = session.sequence(lost.ids, lost.scored)
        rejected = self._score(lost, second.logprobs, reference[1])
        result = self._dpo.pair(chosen, rejected, pairs, tokens)
        second.backward(lost.spread(result.rejected * self._weights(lost)))
        first = session.sequence(won.ids, won.scored)
        first.backward(won.spread(result.chosen * self._weights(won)))
        return result, (chosen, rejected)

    def _add_batch(self, session: Session, pairs: list[Preference], references: list[np.ndarray]) -> list[_Added]:
        scored = [self._scored(session, pair, reference) for pair, reference in zip(pairs, references, strict=True)]
        results = self._results(scored)
        for pair, result in zip(pairs, results, strict=True):
            for each, factor in zip(_completions(pair), (result.chosen, result.rejected), strict=True):
                sequence = session.sequence(each.ids, each.scored)
                sequence.backward(each.spread(factor * self._weights(each)))
        return list(zip(results, scored, strict=True))

    def _weights(self, completion: _OfPair) -> np.ndarray:
        return self._dpo.token_weights(completion.length, completion.other_length)

    def _score(self, completion: _OfPair, logprobs: np.ndarray, reference: float) -> Scored:
        return self._dpo.score(completion.of(logprobs), completion.other_length, reference)

    def _results(self, scored: list[tuple[Scored, Scored]]) -> list[PairResult]:
        if self._dpo.needs_batch:
            return self._dpo.batch(scored)
        tokens = sum(chosen.length for chosen, _ in scored)
        return [self._dpo.pair(chosen, rejected, len(scored), tokens) for chosen, rejected in scored]

    def _scored(self, session: Session, pair: Preference, reference: np.ndarray) -> tuple[Scored, Scored]:
        """By the policy, without a backward."""
        chosen, rejected = (
            self._score(each, session.logprobs(each.ids, each.scored), compared)
            for each, compared in zip(_completions(pair), reference, strict=True)
        )
        return chosen, rejected

    def _references(self, session: Session, data: _Data, row: int) -> np.ndarray:
        """float64 [2], the reference's log-probabilities of the pair's completions."""

        def total(number: int, each: _OfPair) -> float:
            def compute() -> np.ndarray:
                return each.of(self._reference.logprobs(session, each.ids, each.scored))

            return self._dpo.total(data.references.get(number, compute), each.other_length)

        if data.references is None:
            return np.zeros(2)
        return np.array([total(2 * row + side, each) for side, each in enumerate(_completions(data.pairs[row]))])

    def measure(self, session: Session, which: str, stop: Callable[[], bool]) -> Measured | None:
        data, scored = self._data[which], []
        for row, pair in enumerate(data.pairs):
            if stop():
                return None
            scored.append(self._scored(session, pair, self._references(session, data, row)))
        loss = sum(result.loss for result in self._results(scored))
        return Measured(loss, _mean([self._dpo.metrics(*each) for each in scored]))


def _mean(metrics: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([each[name] for each in metrics])) for name in metrics[0]}
