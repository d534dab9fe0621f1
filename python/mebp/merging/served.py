# SPDX-License-Identifier: Apache-2.0
"""What an adapter is worth beside the weights that it was trained with, and beside the published ones: one loss each,
on the same rows."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from mebp.cache import make_cache_folder
from mebp.data import Dataset, Row, load_dataset
from mebp.data.sources import Source
from mebp.errors import Error, translate_errors
from mebp.files import scratch_folder
from mebp.inspect import inspect, storage_options
from mebp.merging.compiling import Stage, silent
from mebp.merging.published import EXACT, Published, compile_published, open_adapted
from mebp.remote_adapters import as_lora
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.tools import cache_folder
from mebp.training.evaluation import evaluate

STORED, PUBLISHED, AUTO = "stored", "published", "auto"
ONTO = (STORED, PUBLISHED, AUTO)
_OWN_SAMPLES = "samples that the trained model writes"
_SAMPLES, _SAMPLE_LENGTH = 4, 64
_TIE = 1e-4  # nats; less is no reason to advise anything


@dataclass(frozen=True)
class Pair:
    """Mean losses with the same weights, in nats per token."""

    base: float  # without the adapter
    adapted: float  # with it


@dataclass(frozen=True)
class ServedLosses:
    """Losses on `data`. `published` is None where `unmeasured` says why they could not be measured."""

    data: str
    short_data: str  # the same without where it is
    precision: str  # of activations, in all of them
    storage: str  # of the stored weights
    stored: Pair
    published: Pair | None = None
    published_storage: str | None = None
    unmeasured: str | None = None
    written: dict[str, float] = field(default_factory=dict)  # of merged models, as written, by their names

    @property
    def quantising(self) -> float | None:
        """What storing the weights as they were trained with costs the model without an adapter."""
        return self.published and self.stored.base - self.published.base

    @property
    def better(self) -> str:
        """The weights beside which the adapter has the lower loss; the stored ones where nothing tells."""
        return PUBLISHED if self.published and self.published.adapted < self.stored.adapted else STORED

    @property
    def choice(self) -> str:
        """The same; raises mebp.Error where the published weights could not be measured."""
        if self.published is None:
            raise Error(f"--onto auto compares with the published weights: {self.unmeasured}")
        return self.better

    def advice(self, onto: str) -> str | None:
        """Where a model that was merged onto these weights is served worse than it could be."""
        if self.published is None or onto == self.better:
            return None
        gain = abs(self.stored.adapted - self.published.adapted)
        if gain <= _TIE:
            return None
        return f"beside the {self.better} weights the adapter has the lower loss, by {gain:.4f}: merge with --onto " + (
            self.better
        )

    def numbers(self) -> dict[str, float]:
        """By the names that files have for them."""
        found = {"stored_base": self.stored.base, "stored_adapter": self.stored.adapted}
        if self.published:
            found |= {"published_base": self.published.base, "published_adapter": self.published.adapted}
        return found

    def rows(self) -> list[tuple[str, str, str]]:
        """Of a table: whose loss, without the adapter, and with it."""
        rows = [(f"stored weights, {self.storage}", *_shown(self.stored))]
        if self.published:
            rows.append((f"published weights, {self.published_storage}", *_shown(self.published)))
        return rows + [(name, "", f"{loss:.4f}") for name, loss in self.written.items()]

    def table(self) -> str:
        """For a terminal."""
        rows = [(f"loss on {self.data}, {self.precision}", "without adapter", "with adapter"), *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"{name:<{widths[0]}}  {base:>{widths[1]}}  {adapted:>{widths[2]}}" for name, base, adapted in rows]
        if (cost := self.quantising) is not None:
            lines.append(f"storing the weights as {self.storage} costs {cost:.4f} without the adapter")
        return "\n".join(lines)


def _shown(pair: Pair) -> tuple[str, str]:
    return f"{pair.base:.4f}", f"{pair.adapted:.4f}"


class Served:
    """A bundle, an adapter, and the data that both are measured on. What takes time is made once, where it is asked
    for."""

    def __init__(
        self, bundle: Path, adapter: Path, data: Path | Source | None, base: str | None, opened: ExitStack, stage: Stage
    ) -> None:
        """opened: ends what is made. The rest as `opened` below has it."""
        self.bundle, self.adapter = bundle, adapter
        self._data, self._base, self._opened, self.stage = data, base, opened, stage

    @cached_property
    def published(self) -> Published:
        """Raises mebp.Error where it cannot be had, or is another model than the bundle was made of and the user has
        not named it."""
        make_cache_folder()
        with translate_errors(f"{cache_folder()}: cannot be written", "name another folder with MEBP_CACHE"):
            scratch = self._opened.enter_context(scratch_folder(cache_folder(), ".served-"))
        found = compile_published(self.bundle, self.adapter, self._base, scratch, self.stage)
        if found.differs and self._base is None:
            raise Error(
                f"{found.model}: its '{found.differs}' is not what {self.bundle} was made of; --base MODEL names the "
                "published model, this one or another"
            )
        return found

    @cached_property
    def rows(self) -> Dataset:
        """What is measured on."""
        if self._data is None:
            return _samples(self.session, self.bundle)
        return load_dataset(self._data, Tokenizer(self.bundle), self.session.max_sequence)

    def _names(self) -> tuple[str, str]:
        """What that is called, here and elsewhere."""
        if self._data is None:
            return _OWN_SAMPLES, _OWN_SAMPLES
        return str(self._data), str(self._data.short if isinstance(self._data, Source) else self._data.name)

    @cached_property
    def stored(self) -> ServedLosses:
        """As the bundle computes, without the published weights."""
        self.stage("measuring the loss without the adapter and with it")
        rows = self.rows
        untrained, options = Session(self.bundle, forward_only=True), storage_options(inspect(self.bundle))
        pair = Pair(evaluate(untrained, rows), evaluate(self.session, rows))
        return ServedLosses(*self._names(), options["precision"], options["weights"], pair)

    @cached_property
    def losses(self) -> ServedLosses:
        """With the published weights, in f32 where that can be, or why they were not measured."""
        stored = self.stored
        try:
            published = self.published
        except Error as error:
            return replace(stored, unmeasured=str(error))
        self.stage("measuring the published weights without the adapter and with it")
        if published.differs is None and stored.precision != EXACT:
            stored = replace(stored, precision=EXACT, stored=self._pair(published.stored))
        return replace(stored, published=self._pair(published.bundle), published_storage=published.storage)

    def _pair(self, bundle: Path) -> Pair:
        base, adapted = (evaluate(open_adapted(bundle, each), self.rows) for each in ({}, self.trainables))
        return Pair(base, adapted)

    @cached_property
    def trainables(self) -> dict[str, np.ndarray]:
        """The adapter's, as LoRA."""
        return as_lora(self.session.trainables(), inspect(self.bundle), self.session.frozen_factors())

    @cached_property
    def session(self) -> Session:
        """The bundle's, with the adapter; it trains nothing."""
        session = Session(self.bundle, forward_only=True)
        session.load_adapter(self.adapter)
        return session


@contextmanager
def opened(
    bundle: Path,
    adapter: Path,
    data: Path | Source | None = None,
    base: str | None = None,
    stage: Stage = silent,
) -> Iterator[Served]:
    """base: what the user calls the published model; None for the one that the bundle was made of. What is made lies in
    the cache and is gone at the end."""
    with ExitStack() as made:
        yield Served(bundle, adapter, data, base, made, stage)


def measure_served(
    bundle: Path,
    adapter: Path,
    data: Path | Source | None = None,
    base: str | None = None,
    stage: Stage = silent,
    rows: Dataset | None = None,
) -> ServedLosses:
    """The losses of the bundle's weights and of the published ones, each without the adapter and with it.

    data: a file as for mebp train; None for samples that the trained model writes. rows: what was made of it, where it
    is there already. The rest as `opened` has it.
    Raises mebp.Error where the bundle, the adapter or the data cannot be read; of published weights that cannot be had,
    the result says why.
    """
    with opened(bundle, adapter, data, base, stage) as served:
        if rows is not None:
            served.rows = rows
        return served.losses


def _samples(session: Session, bundle: Path) -> Dataset:
    """Documents of the session's own, drawn from a document's beginning on."""
    tokenizer = Tokenizer(bundle)
    start = tokenizer.encode_document("") or [tokenizer.end_of_text]
    length = min(_SAMPLE_LENGTH, session.max_sequence)
    rows = []
    for seed in range(-(-_SAMPLES // session.max_batch)):
        prompts = np.tile(np.array(start, np.int32), (session.max_batch, 1))
        ids = session.generate(prompts, length - len(start), temperature=1.0, seed=seed).astype(np.int32)
        rows += [Row(row, row) for row in ids]
    return Dataset(rows[:_SAMPLES], tokenizer.end_of_text)
