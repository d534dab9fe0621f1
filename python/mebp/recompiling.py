# SPDX-License-Identifier: Apache-2.0
"""What stays of a training when the merged model is stored in fewer bits: its weights are rounded again."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mebp.compiler import compile
from mebp.data import Dataset, Row, load_dataset
from mebp.errors import Error
from mebp.files import scratch_folder
from mebp.inspect import inspect, storage_options
from mebp.session import Session
from mebp.tokenizer import Tokenizer
from mebp.tools import python_module, run_tool
from mebp.training.evaluation import evaluate

# From the smallest to what rounds nothing that matters; each is tried from the bundle's own on.
STORAGES = ("int4-sym", "int4", "int8", "bf16")
_KEPT = 0.95  # of the gain over the base model
_SAMPLES, _SAMPLE_LENGTH = 4, 64

Stage = Callable[[str], object]


def _silent(line: str) -> None:
    pass


@dataclass(frozen=True)
class Recompiled:
    """Mean losses on the same data, in nats per token."""

    data: str  # what it was
    base: float  # without the adapter
    trained: float  # with it
    merged: dict[str, float]  # of the merged model, compiled again, by the storage of its weights

    @property
    def gain(self) -> float:
        """What training made of the loss."""
        return self.base - self.trained

    def kept(self, storage: str) -> float:
        """Which share of the gain stays; 1 is all."""
        return (self.base - self.merged[storage]) / self.gain

    @property
    def advised(self) -> str | None:
        """The smallest storage that keeps the training; None where none does, or nothing was gained."""
        if self.gain <= 0:
            return None
        return next((storage for storage in self.merged if self.kept(storage) >= _KEPT), None)


def recompile(
    bundle: Path, adapter: Path, merged: Path, data: Path | None = None, stage: Stage = _silent
) -> Recompiled | None:
    """Exports the folder `merged` of mebp.merge, compiles it to the bundle's storage and to larger ones as a user
    would, and measures the loss of each; None where the bundle's weights are f32, which rounds nothing.

    data: a file as for mebp train; None for samples that the trained model writes. stage: is told what begins. What is
    made lies beside `merged` and is gone at the end. Raises mebp.Error where a part fails, as where the packages that
    export are not there.
    """
    own = storage_options(inspect(bundle))["weights"]
    if own not in STORAGES:
        return None
    return _measure(bundle, adapter, merged, data, STORAGES[STORAGES.index(own) :], stage)


def measure_gguf(
    bundle: Path, adapter: Path, merged: Path, data: Path | None = None, stage: Stage = _silent
) -> Recompiled:
    """The same of the GGUF file `merged`, as it is: compiled with f32 weights, which rounds nothing more."""
    return _measure(bundle, adapter, merged, data, ("f32",), stage)


def _measure(
    bundle: Path, adapter: Path, merged: Path, data: Path | None, storages: tuple[str, ...], stage: Stage
) -> Recompiled:
    description = inspect(bundle)
    untrained, session = Session(bundle, forward_only=True), Session(bundle, forward_only=True)
    session.load_adapter(adapter)
    stage("measuring the loss without the adapter and with it; --no-measure leaves all of this out")
    if data is None:
        rows, name = _samples(session, bundle), "samples that the trained model writes"
    else:
        rows, name = load_dataset(data, Tokenizer(bundle), session.max_sequence), str(data)
    base, trained = evaluate(untrained, rows), evaluate(session, rows)
    del untrained, session
    losses = {}
    with scratch_folder(merged.absolute().parent, ".mebp-export-") as scratch:
        for storage, recompiled in _recompiled(description, merged, scratch, storages, stage):
            stage(f"measuring it with {storage} weights")
            losses[storage] = evaluate(Session(recompiled, forward_only=True), rows)
    return Recompiled(name, base, trained, losses)


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


def _recompiled(
    description: dict, merged: Path, scratch: Path, storages: tuple[str, ...], stage: Stage
) -> Iterator[tuple[str, Path]]:
    model, options = description["model"], storage_options(description)
    exported = scratch / "model.onnx"
    # A process of its own: torch takes hundreds of MB.
    shape = ["--seq-len", str(model["sequence"]), "--batch", str(model["batch"])]
    stage("exporting what was merged")
    try:
        run_tool(python_module("mebp", "export", str(merged), "-o", str(exported), *shape))
    except Error as error:
        raise Error(str(error).removeprefix("mebp: ")) from None
    for storage in storages:
        # What is not asked for is as anybody gets it who names only --weights.
        stored = options if storage == options["weights"] else {"weights": storage, "precision": options["precision"]}
        bundle = scratch / f"{storage}.mebp"
        stage(f"compiling it with {storage} weights")
        compile(exported, bundle, **stored)
        yield storage, bundle
        for file in bundle.glob("weights*"):
            os.unlink(file)  # as large as the model; no two of them need room at once
