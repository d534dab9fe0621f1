# SPDX-License-Identifier: Apache-2.0
"""What stays of a training when the merged model is stored in fewer bits: its weights are rounded again."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mebp.compiler import compile
from mebp.files import scratch_folder
from mebp.inspect import inspect, storage_options
from mebp.merging.compiling import Stage, export_like, silent
from mebp.merging.served import Served
from mebp.session import Session
from mebp.training.evaluation import evaluate

# From the smallest to what rounds nothing that matters; each is tried from the bundle's own on.
STORAGES = ("int4-sym", "int4", "int8", "bf16")
_KEPT = 0.95  # of the gain over the base model
_EXACT = "f32"


@dataclass(frozen=True)
class Recompiled:
    """Mean losses on the same data, in nats per token."""

    data: str  # what it was
    base: float  # without the adapter
    trained: float  # with it
    merged: dict[str, float]  # of the merged model, compiled again, by the storage of its weights
    written: float | None = None  # of the merged model as it is

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


def recompile(served: Served, merged: Path, stage: Stage = silent) -> Recompiled:
    """Exports the folder `merged` of mebp.merge, and measures its loss on the rows of `served`: as it is, and compiled
    to the bundle's storage and to larger ones as a user would. f32 rounds nothing, and is compiled to nothing else.

    stage: is told what begins. What is made lies beside `merged` and is gone at the end. Raises mebp.Error where a part
    fails, as where the packages that export are not there.
    """
    own = storage_options(inspect(served.bundle))["weights"]
    storages = STORAGES[STORAGES.index(own) :] if own in STORAGES else ()
    losses = _measure(served, merged, (*storages, _EXACT), stage)
    written, before = losses.pop(_EXACT), served.stored  # as the bundle computes
    return Recompiled(before.data, before.stored.base, before.stored.adapted, losses, written)


def measure_gguf(served: Served, merged: Path, stage: Stage = silent) -> Recompiled:
    """The same of the GGUF file `merged`, as it is: compiled with f32 weights, which rounds nothing more."""
    losses, before = _measure(served, merged, (_EXACT,), stage), served.losses
    return Recompiled(before.data, before.stored.base, before.stored.adapted, losses, losses[_EXACT])


def _measure(served: Served, merged: Path, storages: tuple[str, ...], stage: Stage) -> dict[str, float]:
    """The loss of each; of what rounds nothing, with activations as in the other losses of `served`."""
    description, losses = inspect(served.bundle), {}
    with scratch_folder(merged.absolute().parent, ".mebp-export-") as scratch:
        for storage, recompiled in _recompiled(description, merged, scratch, storages, served.losses.precision, stage):
            stage(f"measuring it with {storage} weights")
            losses[storage] = evaluate(Session(recompiled, forward_only=True), served.rows)
    return losses


def _recompiled(
    description: dict, merged: Path, scratch: Path, storages: tuple[str, ...], precision: str, stage: Stage
) -> Iterator[tuple[str, Path]]:
    options = storage_options(description)
    stage("exporting what was merged")
    exported = export_like(description, merged, scratch)
    for storage in storages:
        # What is not asked for is as anybody gets it who names only --weights.
        stored = options if storage == options["weights"] else {"weights": storage, "precision": options["precision"]}
        if storage == _EXACT:
            stored = stored | {"precision": precision}
        bundle = scratch / f"{storage}.mebp"
        stage(f"compiling it with {storage} weights")
        compile(exported, bundle, **stored)
        yield storage, bundle
        for file in bundle.glob("weights*"):
            os.unlink(file)  # as large as the model; no two of them need room at once
