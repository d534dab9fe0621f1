# SPDX-License-Identifier: Apache-2.0
"""Preference pairs (DPO and its relatives), with the memory of one sequence; pair_ways.py says how pairs are run."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from mebp.data.dataset import rows_of_step, steps_per_epoch
from mebp.data.preferences import Preference, load_preferences
from mebp.data.preferences import Preferences as Pairs
from mebp.data.reference_file import ReferenceFile
from mebp.data.sources import Source, check_no_shares
from mebp.distributed.sequence_steps import SequenceSteps
from mebp.errors import Error
from mebp.inspect import inspect
from mebp.objectives.pairs import DPO, DPOOptions, PairResult, Scored
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.objective_options import parts_of
from mebp.training.objectives.base import ANY_LENGTH, FORWARD, Measured, Objective, Step, vocabulary_of
from mebp.training.objectives.continuation import Continuation
from mebp.training.objectives.pair_ways import (
    CHOSEN,
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
class OfPair(Continuation):
    other_length: int  # of the pair's other completion
    whole: bool = False  # whether the prompt's tokens count, too

    @property
    def scored(self) -> np.ndarray:
        return np.ones(self.ids.shape, dtype=bool) if self.whole else super().scored

    @property
    def counted(self) -> int:
        """Tokens that count; nothing predicts the first of a sequence."""
        return self.ids.size - 1 if self.whole else self.length

    def padded(self, tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """ids and mask [1, tokens]; what comes behind is not scored."""
        room = ((0, 0), (0, tokens - self.ids.size))
        return np.pad(self.ids, room), np.pad(self.scored, room)


Added = tuple[PairResult, tuple[Scored, Scored]]  # a pair's share of the loss, and both completions as they were scored


class _Data:
    """Pairs with what the reference says of them."""

    def __init__(self, sources: Sequence[Source], tokenizer: Tokenizer, length: int, vocabulary: int) -> None:
        parts = [load_preferences(source, tokenizer, length, vocabulary) for source in sources]
        loaded = Pairs([pair for part in parts for pair in part.rows], [note for part in parts for note in part.notes])
        self.pairs, self.notes, self.digest = loaded.rows, loaded.notes, loaded.digest
        self.references: ReferenceFile | None = None

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Of each pair's sequences."""
        return [pair.lengths for pair in self.pairs]


def _sources(options: TrainingOptions) -> dict[str, list[Source]]:
    measured = {name: [source] for name, source in options.measured.items()}
    return {"train": check_no_shares(options.data, f"--objective {options.objective}")} | measured


class Preferences(Objective):
    metrics = of_pairs = _METRICS  # of each pair
    watched = MappingProxyType({"margin": "rewards/margins", "accuracy": "rewards/accuracies"})
    pairs_up_to = SHORT
    # Whose gradient may wait for the pair's coefficient: one that lacks nothing but that number.
    waits = CHOSEN

    @classmethod
    def formula_of(cls, options: TrainingOptions) -> DPO:
        return DPO(parts_of(options.objective, options.objective_options)[DPOOptions])

    @classmethod
    def check_options(cls, options: TrainingOptions) -> None:
        if options.reference is not None and not cls.formula_of(options).needs_reference:
            raise Error("--reference is compared with by other losses than sft; choose one, or leave it out")

    @classmethod
    def sequence_lengths(cls, options: TrainingOptions, tokenizer: Tokenizer) -> list[int]:
        every = [source for sources in _sources(options).values() for source in sources]
        data = [load_preferences(source, tokenizer, ANY_LENGTH) for source in every]
        return [max(pair.lengths) for each in data for pair in each.rows]

    def __init__(self, options: TrainingOptions, tokenizer: Tokenizer, length: int) -> None:
        super().__init__(options)
        self._formula = self.formula_of(options)
        vocabulary = vocabulary_of(options.bundle)
        self._data = {name: _Data(paths, tokenizer, length, vocabulary) for name, paths in _sources(options).items()}
        self.notes = [note for data in self._data.values() for note in data.notes]
        self.digest = self._data["train"].digest
        self._description = inspect(options.bundle)
        self._steps = SequenceSteps(self._shared)
        self._way = self._choose_way(has_room=True)

    def description(self) -> Mapping[str, object]:
        return {"--objective": self.options.objective, "--reference": self.options.reference, **self.own_options()}

    def session_options(self) -> Mapping[str, object]:
        return {"accumulate": True, "pending_gradients": self._way.room > 0} | self._shared_options()

    def saves_memory(self) -> bool:
        had_room, self._way = self._way.room > 0, self._choose_way(has_room=False)
        return had_room

    def begin(self, session: Session) -> Iterator[str]:
        yield from self.notes
        yield str(self._way)
        if not self._formula.needs_reference:
            return
        self._reference = Reference(self.options)
        if self._reference.note:
            yield self._reference.note
        self._reference.begin(session)
        for name, data in self._data.items():
            if name != "train" and not self.measures(name):
                continue
            lengths = [len(completion) for pair in data.pairs for completion in (pair.chosen, pair.rejected)]
            file = self._reference.file if name == "train" else None
            kept = partial(self._reference.kept, data.digest, lengths, file)
            data.references = self._steps.in_turn(kept) if name == "train" else kept()

    def _choose_way(self, has_room: bool) -> PairWay:
        rows = self._description["model"]["batch"]
        return choose_way(
            needs_batch=self._formula.needs_batch,
            rows=rows,
            lengths=self._data["train"].lengths,
            several=(self._pairs_of_batch(rows) if self._shared else self._pairs_per_step(rows)) > 1,
            has_room=has_room,
            waiting=gradient_bytes(self._description),
            waits=self.waits,
        )

    def summary(self, session: Session) -> str:
        lengths = self._data["train"].lengths
        return f"{counted(len(lengths), 'pair')} of up to {max(map(max, lengths))} tokens"

    def _pairs_per_step(self, rows: int) -> int:
        """By rows of the bundle's batch."""
        return self.options.batches_per_step * self._pairs_of_batch(rows)

    @staticmethod
    def _pairs_of_batch(rows: int) -> int:
        return max(1, rows // 2)

    def steps_per_epoch(self, session: Session) -> int:
        return steps_per_epoch(len(self._data["train"].pairs), self._pairs_per_step(session.max_batch))

    def steps_of_evaluation(self, session: Session) -> float:
        return FORWARD * len(self._data["eval"].pairs) / self._pairs_per_step(session.max_batch)

    def step(self, session: Session, number: int) -> Step:
        begun, data = time.perf_counter(), self._data["train"]
        rows = rows_of_step(len(data.pairs), number, self._pairs_per_step(session.max_batch), self.options.seed)
        pairs = [data.pairs[row] for row in rows]
        sizes = [sum(pair.lengths) for pair in pairs]
        parts = self._steps.parts(sizes, self._pairs_of_batch(session.max_batch))
        # Before the first sequence: the adapter is set aside where their gradients will be.
        references = {index: self._references(session, data, int(rows[index])) for part in parts for index in part}
        outcomes = self._add(session, pairs, parts, references)
        result = self._steps.apply(session)
        found = self._numbers_of_all(outcomes)
        tokens = sum(each.counted for pair in pairs for each in self.completions(pair))
        loss = sum(each["loss"] for each in found)
        metrics = self.metrics_of(found) | self._told_imbalance()
        return Step(result.of(loss, tokens, time.perf_counter() - begun), sum(sizes), metrics)

    def _numbers_of_all(self, outcomes: Mapping[int, Added]) -> list[dict[str, float]]:
        """Of each pair of the step, of which this process has added some."""
        own = {index: self.numbers_of(*outcome) for index, outcome in outcomes.items()}
        names = ("loss", *self.of_pairs)
        found = self._steps.of_all({index: np.array([each[name] for name in names]) for index, each in own.items()})
        return [dict(zip(names, map(float, each), strict=True)) for each in found]

    def completions(self, pair: Preference) -> tuple[OfPair, OfPair]:
        """The chosen one, and the rejected one."""
        chosen, rejected = pair.chosen, pair.rejected
        return OfPair(pair.prompt, chosen, len(rejected)), OfPair(pair.prompt, rejected, len(chosen))

    def score(self, completion: OfPair, logprobs: np.ndarray, reference: float) -> Scored:
        """logprobs: float32 [1, tokens of both - 1], the policy's."""
        return self._formula.score(completion.of(logprobs), completion.other_length, reference)

    def weights(self, completion: OfPair) -> np.ndarray:
        """float64 [its length]: what the pair's number is multiplied by."""
        return self._formula.token_weights(completion.length, completion.other_length)

    def coefficients(self, completion: OfPair, number: float, tokens: int) -> np.ndarray:
        """dL/dlogp, [1, tokens of both - 1]. tokens: that count in all chosen completions of the step."""
        return completion.spread(number * self.weights(completion))

    def numbers_of(self, result: PairResult, scored: tuple[Scored, Scored]) -> dict[str, float]:
        """A pair's share of the loss, and its metrics."""
        return {"loss": result.loss, **self._formula.metrics(*scored)}

    def metrics_of(self, found: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Of the numbers of all pairs of a step, or of an evaluation."""
        return {name: float(np.mean([each[name] for each in found])) for name in self.of_pairs}

    def _chosen_tokens(self, pairs: list[Preference]) -> int:
        return sum(self.completions(pair)[0].counted for pair in pairs)

    def _add(
        self, session: Session, pairs: list[Preference], parts: list[list[int]], references: Mapping[int, np.ndarray]
    ) -> dict[int, Added]:
        """Adds the gradient of each pair of this process's parts of the step; what became of them, by their indices."""
        if self._formula.needs_batch:
            return self._add_batch(session, pairs, parts, references)
        ways = {
            DEFERRED: self._add_deferred,
            INTERLEAVED: self._add_interleaved,
            SCORED_FIRST: self._add_scored_first,
        }
        add = ways[self._way.name]
        tokens = self._chosen_tokens(pairs)
        return {
            index: add(session, pairs[index], references[index], len(pairs), tokens)
            for part in self._steps.batches(session, parts)
            for index in part
        }

    def _add_deferred(
        self, session: Session, pair: Preference, reference: np.ndarray, pairs: int, tokens: int
    ) -> Added:
        both = self.completions(pair)
        early, late = (0, 1) if self.waits == CHOSEN else (1, 0)
        first = session.sequence(both[early].ids, both[early].scored)
        scored = {early: self.score(both[early], first.logprobs, reference[early])}
        first.backward(both[early].spread(self.weights(both[early])), pending=True)
        second = session.sequence(both[late].ids, both[late].scored)
        scored[late] = self.score(both[late], second.logprobs, reference[late])
        result = self._formula.pair(scored[0], scored[1], pairs, tokens)
        numbers = result.chosen, result.rejected
        session.settle(numbers[early])
        second.backward(self.coefficients(both[late], numbers[late], tokens))
        return result, (scored[0], scored[1])

    def _add_interleaved(
        self, session: Session, pair: Preference, reference: np.ndarray, pairs: int, tokens: int
    ) -> Added:
        both = self.completions(pair)
        longest = max(each.ids.shape[1] for each in both)
        sequence = session.sequence(
            *(np.concatenate(rows) for rows in zip(*(each.padded(longest) for each in both), strict=True))
        )
        rows = [sequence.logprobs[row, : each.ids.shape[1] - 1] for row, each in enumerate(both)]
        chosen, rejected = (
            self.score(each, row[None], of) for each, row, of in zip(both, rows, reference, strict=True)
        )
        result = self._formula.pair(chosen, rejected, pairs, tokens)
        coefficients = np.zeros_like(sequence.logprobs)
        for row, (each, number) in enumerate(zip(both, (result.chosen, result.rejected), strict=True)):
            coefficients[row, : each.ids.shape[1] - 1] = self.coefficients(each, number, tokens)
        sequence.backward(coefficients)
        return result, (chosen, rejected)

    def _add_scored_first(
        self, session: Session, pair: Preference, reference: np.ndarray, pairs: int, tokens: int
    ) -> Added:
        won, lost = self.completions(pair)
        chosen = self.score(won, session.logprobs(won.ids, won.scored), reference[0])
        second = session.sequence(lost.ids, lost.scored)
        rejected = self.score(lost, second.logprobs, reference[1])
        result = self._formula.pair(chosen, rejected, pairs, tokens)
        second.backward(self.coefficients(lost, result.rejected, tokens))
        first = session.sequence(won.ids, won.scored)
        first.backward(self.coefficients(won, result.chosen, tokens))
        return result, (chosen, rejected)

    def _add_batch(
        self, session: Session, pairs: list[Preference], parts: list[list[int]], references: Mapping[int, np.ndarray]
    ) -> dict[int, Added]:
        own = {index: self._scored(session, pairs[index], reference) for index, reference in references.items()}
        arrays = {index: np.array([astuple(each) for each in scored]).ravel() for index, scored in own.items()}
        every = [tuple(Scored(*each) for each in values.reshape(2, -1)) for values in self._steps.of_all(arrays)]
        results, tokens = self._results(pairs, every), self._chosen_tokens(pairs)
        for index in (index for part in self._steps.batches(session, parts) for index in part):
            both, numbers = self.completions(pairs[index]), (results[index].chosen, results[index].rejected)
            for each, number in zip(both, numbers, strict=True):
                sequence = session.sequence(each.ids, each.scored)
                sequence.backward(self.coefficients(each, number, tokens))
        return {index: (results[index], every[index]) for index in own}

    def _results(self, pairs: list[Preference], scored: list[tuple[Scored, Scored]]) -> list[PairResult]:
        if self._formula.needs_batch:
            return self._formula.batch(scored)
        tokens = self._chosen_tokens(pairs)
        return [self._formula.pair(chosen, rejected, len(scored), tokens) for chosen, rejected in scored]

    def _scored(self, session: Session, pair: Preference, reference: np.ndarray) -> tuple[Scored, Scored]:
        """By the policy, without a backward."""
        chosen, rejected = (
            self.score(each, session.logprobs(each.ids, each.scored), compared)
            for each, compared in zip(self.completions(pair), reference, strict=True)
        )
        return chosen, rejected

    def _references(self, session: Session, data: _Data, row: int) -> np.ndarray:
        """float64 [2], the reference's log-probabilities of the pair's completions."""

        def total(number: int, each: OfPair) -> float:
            def compute() -> np.ndarray:
                return each.of(self._reference.logprobs(session, each.ids, each.scored))

            return self._formula.total(data.references.get(number, compute), each.other_length)

        if data.references is None:
            return np.zeros(2)
        return np.array([total(2 * row + side, each) for side, each in enumerate(self.completions(data.pairs[row]))])

    def measure(self, session: Session, which: str, stop: Callable[[], bool]) -> Measured | None:
        data, scored = self._data[which], []
        for row, pair in enumerate(data.pairs):
            if stop():
                return None
            scored.append(self._scored(session, pair, self._references(session, data, row)))
        found = [self.numbers_of(*each) for each in zip(self._results(data.pairs, scored), scored, strict=True)]
        return Measured(sum(each["loss"] for each in found), self.metrics_of(found))
