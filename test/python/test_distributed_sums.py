# SPDX-License-Identifier: Apache-2.0
"""Sums over the ranks of a group, of which each is a thread here."""

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np
import pytest

import mebp
from mebp.distributed import sums
from mebp.distributed.sums import GradientSums
from mebp.distributed.tree import TreeSum


class Ranks:
    """What `size` ranks send one another."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.sent: list[Sequence[np.ndarray]] = [()] * size
        self.barrier = threading.Barrier(size)

    def run(self, act: Callable[["Rank"], object]) -> list[object]:
        """What `act` returns in each."""
        found: list[object] = [None] * self.size

        def call(rank: int) -> None:
            found[rank] = act(Rank(self, rank))

        threads = [threading.Thread(target=call, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found


class Rank:
    def __init__(self, ranks: Ranks, rank: int) -> None:
        self._ranks, self.rank, self.size = ranks, rank, ranks.size

    def exchange(self, sent: Sequence[np.ndarray], received: Sequence[np.ndarray]) -> None:
        self._ranks.sent[self.rank] = [each.copy() for each in sent]
        self._ranks.barrier.wait()
        for other in range(self.size):
            received[other][:] = self._ranks.sent[other][self.rank]
        self._ranks.barrier.wait()

    def gather_numbers(self, values: Sequence[float]) -> np.ndarray:
        found = np.zeros((self.size, len(values)), np.float64)
        self.exchange([np.array(values)] * self.size, found)
        return found


def tree(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Two halves, of which the first has the most that is a power of two."""
    if len(parts) == 1:
        return parts[0]
    half = 1 << (len(parts) - 1).bit_length() - 1
    return tree(parts[:half]) + tree(parts[half:])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 7, 8])
def test_all_ranks_have_the_bits_of_the_tree(size):
    random = np.random.default_rng(size)
    values = (random.normal(size=(size, 64)) * 10.0 ** random.integers(-6, 6, (size, 64))).astype(np.float32)

    def act(rank: Rank) -> list[np.ndarray]:
        made, found = TreeSum(rank, 61), []
        for count in (61, 1, 60, 17):  # in the same memory
            made.values[:count] = values[rank.rank, :count]
            made.sum(count)
            found.append(made.values[:count].copy())
        return found

    expected = tree(list(values))
    for found in Ranks(size).run(act):
        for each in found:
            np.testing.assert_array_equal(each, expected[: each.size])


def described(sizes: Sequence[int]) -> dict:
    """What `inspect` says of trainables with gradients of so many values."""
    return {"trainables": [{"gradient_elements": size, "gradient_rank": 0} for size in sizes]}


class Session:
    """Of trainables of these sizes, each of one row."""

    def __init__(self, gradients: Sequence[np.ndarray], optimizer: str = "adamw") -> None:
        self.gradients, self.native, self.path, self.optimizer = gradients, self, None, optimizer
        self.given: list[tuple[int, np.ndarray]] = []

    def give_gradient(self, index: int) -> None:
        self.given.append((index, self.gradients[index].copy()))


@pytest.mark.parametrize("bucket", [1, 7, 8, 1000])
def test_gradients_in_several_buckets_come_back_once_and_whole(bucket, monkeypatch):
    """In whatever order the session hands them over."""
    sizes = [3, 8, 1, 20, 7]
    monkeypatch.setattr(sums, "BUCKET", bucket)
    monkeypatch.setattr(sums, "inspect", lambda path: described(sizes))
    random = np.random.default_rng(bucket)
    values = [[random.normal(size=n).astype(np.float32) for n in sizes] for _ in range(2)]
    orders = [random.permutation(len(sizes)) for _ in range(2)]

    def act(rank: Rank) -> list[tuple[int, np.ndarray]]:
        session = Session([each.copy() for each in values[rank.rank]])
        summing = GradientSums(rank)
        assert summing.bytes_beside(session) == 8 * 2 * -(-min(bucket, 39) // 2)
        with summing.during(session):
            for index in orders[rank.rank]:
                summing.take(int(index), session.gradients[index])
            while len(session.given) < len(sizes):
                threading.Event().wait(0.001)
        assert summing.norm(np.ones(1), 1.0) == 1.0
        return session.given

    for given in Ranks(2).run(act):
        assert [index for index, _ in given] == [4, 3, 2, 1, 0]
        for index, found in given:
            np.testing.assert_array_equal(found, values[0][index] + values[1][index])


@pytest.mark.parametrize("bucket", [1, 7, 1000])
def test_products_of_any_size_are_summed_where_they_are(bucket, monkeypatch):
    sizes = [3, 8, 1]
    monkeypatch.setattr(sums, "BUCKET", bucket)
    monkeypatch.setattr(sums, "inspect", lambda path: described(sizes))
    values = np.random.default_rng(bucket).normal(size=(4, 50)).astype(np.float32)

    def act(rank: Rank) -> np.ndarray:
        summing, own = GradientSums(rank), values[rank.rank].copy()
        with summing.during(Session([], "galore")):
            assert summing.sum_products(own)
        return own

    for found in Ranks(4).run(act):
        np.testing.assert_array_equal(found, tree(list(values)))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 8])
def test_a_loss_is_the_sum_of_the_tree(size, monkeypatch):
    """In float64, without memory for gradients, which there are none of."""
    monkeypatch.setattr(sums, "inspect", lambda path: described([81]))
    random = np.random.default_rng(size)
    losses = random.normal(size=(size, 1)) * 10.0 ** random.integers(-9, 9, (size, 1))

    def act(rank: Rank) -> float | None:
        session, summing = Session([], "mezo"), GradientSums(rank)
        assert summing.bytes_beside(session) == 0
        with summing.during(session):
            return summing.sum_loss(losses[rank.rank, 0])

    assert Ranks(size).run(act) == [tree(list(losses))[0]] * size


def test_where_a_process_is_lost_there_is_no_sum(monkeypatch):
    monkeypatch.setattr(sums, "inspect", lambda path: described([4]))

    def lose(*given: object) -> None:
        raise mebp.Error("rank 0: lost another process")

    for optimizer in ("mezo", "galore"):
        summing = GradientSums(SimpleNamespace(size=2, exchange=lose, gather_numbers=lose))
        with pytest.raises(mebp.Error, match="lost another process"), summing.during(Session([], optimizer)):
            assert summing.sum_loss(1.0) is None if optimizer == "mezo" else not summing.sum_products(np.ones(4))
            raise mebp.Error("the step, which has nothing to go on with")


def test_where_a_process_is_lost_all_are_given_back_and_the_step_fails(monkeypatch):
    sizes = [5, 9]
    monkeypatch.setattr(sums, "BUCKET", 4)
    monkeypatch.setattr(sums, "inspect", lambda path: described(sizes))

    def lose(sent: object, received: object) -> None:
        raise mebp.Error("rank 0: lost another process")

    session = Session([np.ones(n, np.float32) for n in sizes])
    summing = GradientSums(SimpleNamespace(size=2, exchange=lose))
    with pytest.raises(mebp.Error, match="lost another process"), summing.during(session):
        for index, gradient in enumerate(session.gradients):
            summing.take(index, gradient)
        while len(session.given) < len(sizes):
            threading.Event().wait(0.001)
        assert summing.norm(np.ones(1), 1.0) is None
        raise mebp.Error("the step, whose gradients are not all there")
