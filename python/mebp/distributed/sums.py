# SPDX-License-Identifier: Apache-2.0
"""Gradients that are summed over processes while the step goes on.

1. The session hands over each gradient as soon as this process's part of it is complete (take), in any order.
2. A thread copies them in one order, that of the trainables from the last to the first, which is about that of the
   backward, into a bucket of 4 MB; whenever it is full, all processes sum what they have in theirs. A gradient may lie
   in several.
3. A sum lies where the gradient was, and the session applies it when it has all of them back.
GaLore's subspaces are found before that, from sums of their own. Of MeZO, which has no gradients, two losses are sent.
Where a process is lost, the step ends, and nothing has been applied.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from mebp.distributed.group import Group
from mebp.distributed.taker import GradientTaker
from mebp.distributed.tree import RingSum, TreeSum, join_in_tree
from mebp.errors import Error
from mebp.inspect import inspect
from mebp.session import Session
from mebp.session_options import takes_losses

BUCKET = 1 << 20  # values: several of a step's sums go on beside its backward, and each is long enough to send


class GradientSums(GradientTaker):
    """`taker` of a session."""

    def __init__(self, group: Group, is_tree: bool = True) -> None:
        self._group, self._kind = group, TreeSum if is_tree else RingSum
        self._changed = threading.Condition()
        self._taken: dict[int, np.ndarray] = {}
        self._failure: Error | None = None
        self._ended = False
        self._trained: list[tuple[int, int]] = []  # of the session's trainables, once they have been asked for
        self._sum: TreeSum | RingSum | None = None

    def sizes(self, session: Session) -> list[int]:
        """How many values each trainable's gradient has."""
        return [size for size, _ in self._read(session)]

    def _read(self, session: Session) -> list[tuple[int, int]]:
        """Each gradient's values, and the rank of the subspace that it is projected to, or 0."""
        if not self._trained:
            trained = inspect(session.path)["trainables"]
            self._trained = [(each["gradient_elements"], each["gradient_rank"]) for each in trained]
        return self._trained

    def _given(self, session: Session) -> int:
        """How many gradients a step gives."""
        return 0 if takes_losses(session.optimizer) else len(self.sizes(session))

    def bytes_beside(self, session: Session) -> int:
        """What sums take beside the session."""
        return self._kind.bytes_of(self._capacity(session), self._group.size)

    def _capacity(self, session: Session) -> int:
        return min(BUCKET, sum(self.sizes(session)[: self._given(session)]))

    def take(self, index: int, gradient: np.ndarray) -> None:
        """The session's, on the thread of the step."""
        with self._changed:
            self._taken[index] = gradient
            self._changed.notify()

    def norm(self, squares: np.ndarray, total: float) -> float | None:
        return None if self._failure else total

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Keeps what is raised for the end of the step."""
        try:
            yield
        except Error as error:
            self._failure = error

    def sum_loss(self, loss: float) -> float | None:
        with self._noting():
            return float(join_in_tree(list(self._group.gather_numbers([loss])))[0])
        return None

    def sum_products(self, sums: np.ndarray) -> bool:
        values = self._sum.values
        with self._noting():
            for begin in range(0, sums.size, values.size):
                part = sums[begin : begin + values.size]
                values[: part.size] = part
                self._sum.sum(part.size)
                part[:] = values[: part.size]
        return self._failure is None

    @contextmanager
    def during(self, session: Session) -> Iterator[None]:
        """A step of the session. Raises what ended it, where that was another process's end."""
        self._taken, self._failure, self._ended = {}, None, False
        self._prepare(session)
        thread = threading.Thread(target=self._run, args=(session,), name="mebp-sums", daemon=True)
        thread.start()
        try:
            yield
        except Error:
            if self._failure:
                raise self._failure from None
            raise
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify()
            thread.join()

    def _prepare(self, session: Session) -> None:
        if self._sum is None:
            self._sum = self._kind(self._group, self._capacity(session))

    def _run(self, session: Session) -> None:
        bucket = _Bucket(self._sum.values)
        for index in range(self._given(session) - 1, -1, -1):
            gradient = self._next(index)
            if gradient is None:
                return
            while (gradient := bucket.add(index, gradient)).size:
                self._sum_up(bucket, session)
        if bucket.filled:
            self._sum_up(bucket, session)

    def _next(self, index: int) -> np.ndarray | None:
        with self._changed:
            self._changed.wait_for(lambda: index in self._taken or self._ended)
            return self._taken.pop(index, None)

    def _sum_up(self, bucket: "_Bucket", session: Session) -> None:
        if not self._failure:  # and gradients are given back all the same, for the step waits for them
            with self._noting():
                self._sum.sum(bucket.filled)
        for index in bucket.give_back():
            session.native.give_gradient(index)


class _Bucket:
    """What of which gradients is in `values`."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values
        self._parts: list[np.ndarray] = []  # of gradients, in the session's memory
        self._ends: list[int] = []  # indices of those that end in the bucket
        self.filled = 0

    def add(self, index: int, gradient: np.ndarray) -> np.ndarray:
        """What of it finds no more room."""
        part = gradient[: len(self._values) - self.filled]
        self._values[self.filled : self.filled + part.size] = part
        self._parts.append(part)
        self.filled += part.size
        if part.size == gradient.size:
            self._ends.append(index)
        return gradient[part.size :]

    def give_back(self) -> list[int]:
        """Puts all values where they are of; the indices of gradients that are whole again. It is empty then."""
        begin = 0
        for part in self._parts:
            part[:] = self._values[begin : begin + part.size]
            begin += part.size
        whole = self._ends
        self._parts, self._ends, self.filled = [], [], 0
        return whole
