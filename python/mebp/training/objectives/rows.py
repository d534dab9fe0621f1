# SPDX-License-Identifier: Apache-2.0
"""What objectives have in common whose data are rows that are read before the run."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from mebp.arrays import IGNORED_LABEL
from mebp.data import Dataset
from mebp.data.masking import MaskedText
from mebp.data.sources import Source, told
from mebp.errors import Error
from mebp.inspect import dropout_of, inspect
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.training.evaluation import evaluate
from mebp.training.objectives.base import FORWARD, Measured, Objective, Step
from mebp.words import counted, listed

Batches = tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray] | None]


def told_mix(data: Dataset) -> str:
    """What an epoch takes of each source, in a few words; nothing of one."""
    mix = data.mix
    if mix is None:
        return ""
    parts = (f"{name} {100 * taken / mix.total:.3g} %" for name, taken in zip(mix.names, mix.taken, strict=True))
    return f"; an epoch takes {counted(mix.total, 'row')}, {listed(list(parts), 'and')}"


class OfRows(Objective):
    counts = "token"  # what a loss is a mean over
    held_in = "sample"  # what is held out
    cuts_samples = step_is_planned = drops = True
    data: Dataset | MaskedText  # that is trained on
    measured: Mapping[str, Dataset]  # by "eval" and "test"

    @classmethod
    @abstractmethod
    def load_measured(cls, path: Source, tokenizer: Tokenizer, session: Session) -> Dataset:
        """A file to measure on, as the bundle takes it. Raises mebp.Error where it cannot be read."""

    @classmethod
    def measure_data(cls, session: Session, data: Dataset, stop: Callable[[], bool] = lambda: False) -> Measured | None:
        """None where `stop()` became true before all was seen; changes nothing in the session."""
        loss = evaluate(session, data, stop)
        return None if loss is None else Measured(loss)

    def begin(self, session: Session) -> Iterator[str]:
        yield from self.notes

    def steps_per_epoch(self, session: Session) -> int:
        return self.data.steps_per_epoch(session.max_batch * self.options.batches_per_step)

    @property
    def _whole(self) -> Dataset:
        return self.data.whole if isinstance(self.data, MaskedText) else self.data

    def work(self, session: Session, number: int) -> float:
        data, rows = self._whole, session.max_batch * self.options.batches_per_step
        return float(sum(len(data.rows[row]) for row in data.rows_of_step(number, rows, self.options.seed)))

    def mean_work(self, session: Session) -> float:
        data = self._whole
        rows = data.mix.total if data.mix else len(data.rows)
        return data.tokens / len(data.rows) * rows / self.steps_per_epoch(session)

    def steps_of_evaluation(self, session: Session) -> float:
        return FORWARD * self.measured["eval"].tokens / self.mean_work(session)

    def step(self, session: Session, number: int) -> Step:
        options = self.options
        batches = self.data.step_batches(number, session.max_batch, options.batches_per_step, options.seed)
        losses = self._losses_by_source(session, number, batches)
        result = self._shared.step(session, batches) if self._shared else session.step(*batches)
        return Step(result, sum(ids.size for ids in batches[0]), losses(result.loss) | self._told_imbalance())

    def hold(self, held: Dataset | None) -> None:
        """Takes what was held out of the data, for evaluations. Raises mebp.Error where it was to be something."""
        if held is not None:
            self.measured = {"eval": held, **self.measured}
            count, all_of = (len(data.rows) if data.samples is None else data.samples for data in (held, self.data))
            self.held_out = f"{count:,} of {counted(count + all_of, self.held_in)}"
        elif self.options.val_split is not None:
            raise Error(
                f"--val-split {self.options.val_split:g}: {told(self.options.data)} has too few samples that differ to "
                "hold some out; give --eval FILE"
            )

    def measures(self, which: str) -> bool:
        return which in self.measured and self._is_first

    def use(self, data: Dataset) -> None:
        """Says which losses are logged: with several sources, that of each."""
        if data.mix is not None:
            self.metrics = (*self.metrics, *(f"loss/{name}" for name in data.mix.names))

    def _losses_by_source(self, session: Session, number: int, batches: Batches) -> Callable[[float], dict[str, float]]:
        """The loss of each source in a step, before its update, once the loss of the whole step is known.

        All are measured but that of the source with the most labels, which is what is left of the whole. With dropout,
        which is of steps alone, that one is measured, too.
        """
        data = self._whole
        if data.mix is None:
            return lambda whole: {}
        options, names = self.options, data.mix.names
        sources = data.mix.sources(
            data.rows_of_step(number, session.max_batch * options.batches_per_step, options.seed)
        )
        ids, labels, starts = batches
        shift = data.rows[0].shift
        counts = np.concatenate([np.count_nonzero(each[:, shift:] != IGNORED_LABEL, axis=1) for each in labels])
        totals = np.bincount(sources, counts, len(names))
        left = None if dropout_of(inspect(options.bundle)) else int(np.argmax(totals))
        sums = np.zeros(len(names))
        for batch, first in enumerate(np.cumsum([0, *(len(each) for each in ids[:-1])])):
            own = sources[first : first + len(ids[batch])]
            for source in np.unique(own if left is None else own[own != left]):
                rows = own == source
                arrays = [ids[batch][rows], labels[batch][rows], None if starts is None else starts[batch][rows]]
                sums[source] += session.loss(*arrays) * counts[first : first + len(own)][rows].sum()

        def found(whole: float) -> dict[str, float]:
            if left is not None:
                sums[left] = whole * totals.sum() - sums.sum()
            return {f"loss/{name}": sums[index] / totals[index] for index, name in enumerate(names) if totals[index]}

        return found

    def measure(self, session: Session, which: str, stop: Callable[[], bool]) -> Measured | None:
        return self.measure_data(session, self.measured[which], stop)
