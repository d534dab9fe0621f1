# SPDX-License-Identifier: Apache-2.0
"""The same run twice, and on any number of threads, gives the same bits: losses, gradients, adapters."""

import numpy as np
import pytest

import mebp
from mebp.extension import load_runtime
from mebp.verification.inputs import randomise_adapter
from support import models
from support.pipeline import make_bundle

LENGTH = 90
THREADS = (1, 1, 2, 3, 2)  # the first run is what the others have to repeat
# Above one tile of the loss and one task of a kernel, so that threads share the work of each.
SIZES = {"num_hidden_layers": 2, "vocab_size": 2500}


@pytest.fixture(scope="module", params=["f32", "bf16"])
def bundle(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return make_bundle(models.build("llama", **SIZES), folder, seq_len=LENGTH, batch=2, precision=request.param)


@pytest.fixture(scope="module")
def batches() -> list[np.ndarray]:
    return list(np.random.default_rng(0).integers(0, SIZES["vocab_size"], (3, 2, LENGTH)))


def bits(arrays: dict[str, np.ndarray]) -> dict[str, bytes]:
    assert all(np.isfinite(array).all() for array in arrays.values())
    return {name: array.tobytes() for name, array in arrays.items()}


def test_gradients(bundle, batches):
    def run(threads: int) -> tuple[float, dict[str, bytes]]:
        session = mebp.Session(bundle, threads=threads)
        randomise_adapter(session)
        loss, gradients = session.loss_and_gradients(batches[0], batches[0])
        assert all(gradient.any() for gradient in gradients.values())
        return loss, bits(gradients)

    first, *others = map(run, THREADS)
    assert all(other == first for other in others)


# GaLore and Q-GaLore take other bundles: test_galore.py, test_qgalore.py.
@pytest.mark.parametrize("optimizer", [name for name, _ in load_runtime().optimizers() if "galore" not in name])
def test_three_steps(bundle, batches, optimizer):
    def run(threads: int) -> tuple[list[float], dict[str, bytes]]:
        session = mebp.Session(bundle, threads=threads, optimizer=optimizer, lr=1e-2)
        randomise_adapter(session)
        before = bits(session.trainables())
        losses = [session.step(ids, ids).loss for ids in batches]
        after = bits(session.trainables())
        assert all(after[name] != before[name] for name in before)
        return losses, after

    first, *others = map(run, THREADS)
    assert all(other == first for other in others)
