# SPDX-License-Identifier: Apache-2.0
"""What sessions that share a step of GaLore tell one another: sums of products with the gradient, and gradients in the
subspaces that are found from these. Parts of a step are nodes of one session's tree."""

from pathlib import Path

import numpy as np
import pytest

import mebp
from mebp.distributed.taker import GradientTaker
from mebp.distributed.tree import join_in_tree
from support import models
from support.pipeline import make_bundle

Arrays = list[np.ndarray]
SEQUENCE = 24
OPTIMIZERS = {
    "sketches": {"optimizer": "galore", "weights": "f32"},
    "exactly": {"optimizer": "galore", "weights": "f32"},
    "lazily, in four bits": {"optimizer": "qgalore", "weights": "int8"},
}


class Told(GradientTaker):
    """Goes on with `of_all` instead of what it is told, where there is that."""

    def __init__(self, of_all: "Told | None" = None) -> None:
        self.of_all, self.sums, self.gradients = of_all, [], {}

    def take(self, index: int, gradient: np.ndarray) -> None:
        self.gradients[index] = gradient.copy()
        if self.of_all:
            gradient[:] = self.of_all.gradients[index]
        self.session.native.give_gradient(index)

    def norm(self, squares: np.ndarray, total: float) -> float:
        return total

    def sum_loss(self, loss: float) -> float:
        raise AssertionError

    def sum_products(self, sums: np.ndarray) -> bool:
        self.sums.append(sums.copy())
        if self.of_all:
            sums[:] = self.of_all.sums[len(self.sums) - 1]
        return True


@pytest.fixture(scope="module", params=OPTIMIZERS)
def found_by(request, tmp_path_factory) -> tuple[Path, dict[str, object]]:
    model = models.build("llama")
    how = {"train": "full", "galore_rank": 4, **OPTIMIZERS[request.param]}
    bundle = make_bundle(model, tmp_path_factory.mktemp("galore"), seq_len=SEQUENCE, **how)
    return bundle, {"galore_refresh": "svd" if request.param == "exactly" else "sketch"}


def micro_batches(bundle: Path, count: int) -> tuple[Arrays, Arrays, list[int]]:
    """Of different lengths, some without a label; and how many labels of each count."""
    generator = np.random.default_rng(count)
    ids = [generator.integers(3, 60, (1, generator.integers(5, SEQUENCE)), dtype=np.int32) for _ in range(count)]
    labels = [np.where(number % 3 == 1, -100, each).astype(np.int32) for number, each in enumerate(ids)]
    return ids, labels, [int((each[:, 1:] != -100).sum()) for each in labels]


def step(found_by: tuple[Path, dict], count: int, own: range, of_all: Told | None = None) -> tuple[Told, dict]:
    """What a new session tells of its micro-batches, and what it has learned."""
    bundle, options = found_by
    told = Told(of_all)
    session = mebp.Session(bundle, lr=1e-2, accumulate=True, tree_batches=len(own), taker=told, **options)
    told.session = session
    ids, labels, counted = micro_batches(bundle, count)
    arrays = [each[own.start : own.stop] for each in (ids, labels)]
    session.native.step_part(*arrays, [], sum(counted), count, own.start)
    return told, session.trainables()


@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_parts_of_a_step_are_nodes(found_by, count):
    whole, learned = step(found_by, count, range(count))
    assert whole.sums and all(np.abs(each).max() > 0 for each in whole.sums)
    for size in (1, 2):
        if count % size or size == count:
            continue
        parts = [step(found_by, count, range(first, first + size), whole) for first in range(0, count, size)]
        for number, expected in enumerate(whole.sums):
            found = join_in_tree([told.sums[number].copy() for told, _ in parts])
            np.testing.assert_array_equal(found, expected, err_msg=f"sum {number}")
        for index, expected in whole.gradients.items():
            found = join_in_tree([told.gradients[index].copy() for told, _ in parts])
            np.testing.assert_array_equal(found, expected, err_msg=f"gradient {index}")
        for _, values in parts:
            for key, expected in learned.items():
                np.testing.assert_array_equal(values[key], expected, err_msg=key)


def test_one_session_makes_the_same_steps_untold(found_by):
    """The taker is all that is another's."""
    bundle, options = found_by
    ids, labels, counted = micro_batches(bundle, 5)
    session = mebp.Session(bundle, lr=1e-2, accumulate=True, tree_batches=5, **options)
    session.native.step_part(ids, labels, [], sum(counted), 5, 0)
    _, learned = step(found_by, 5, range(5))
    for key, values in session.trainables().items():
        np.testing.assert_array_equal(values, learned[key], err_msg=key)


def test_what_is_told_is_as_large_as_the_subspaces(found_by):
    """Never a gradient, but where subspaces are found exactly."""
    _, options = found_by
    told, learned = step(found_by, 2, range(2))
    most = max(values.size for values in learned.values())
    largest = max(each.size for each in told.sums)
    assert (largest == most) if options["galore_refresh"] == "svd" else (largest < most)


def test_a_part_needs_the_others(found_by):
    bundle, options = found_by
    ids, labels, counted = micro_batches(bundle, 2)
    session = mebp.Session(bundle, accumulate=True, tree_batches=1, **options)
    before = session.trainables()
    with pytest.raises(mebp.Error) as refused:
        session.native.step_part(ids[:1], labels[:1], [], sum(counted), 2, 0)
    assert str(refused.value) == (
        "sessions that share a step find their subspaces together; create each with on_subspace"
    )
    for key, values in session.trainables().items():
        np.testing.assert_array_equal(values, before[key], err_msg=key)


def test_where_sums_cannot_be_shared_nothing_changes(found_by):
    bundle, options = found_by

    class Alone(Told):
        def sum_products(self, sums: np.ndarray) -> bool:
            return len(self.sums) < 3 and super().sum_products(sums)

    ids, labels, counted = micro_batches(bundle, 2)
    session = mebp.Session(bundle, accumulate=True, tree_batches=2, taker=Alone(), **options)
    before = session.trainables()
    with pytest.raises(mebp.Error, match=r"^on_subspace has failed at '.*'; nothing has been applied$"):
        session.native.step_part(ids, labels, [], sum(counted), 2, 0)
    assert session.steps == 0
    for key, values in session.trainables().items():
        np.testing.assert_array_equal(values, before[key], err_msg=key)
