# SPDX-License-Identifier: Apache-2.0
"""Gradients that are summed over processes while the step goes on.

1. The session hands over each gradient as soon as this process's part of it is complete (take), in any order.
2. A thread collects them in one order, that of the trainables from the last to the first, which is about that of the
   backward; all processes sum the same ones together, some 25 MB at a time.
3. A sum lies where the gradient was, and the session applies it when it has all of them back.
Where a process is lost, the step ends, and nothing has been applied.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from mebp.distributed.group import Group
from mebp.distributed.taker import GradientTaker
from mebp.errors import Error
from mebp.inspect import inspect
from mebp.session import Session

_BUCKET = 25 << 20  # bytes


class GradientSums(GradientTaker):
    """`taker` of a session."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._changed = threading.Condition()
        self._taken: dict[int, np.ndarray] = {}
        self._failure: Error | None = None
        self._ended = False
        self._count: int | None = None  # of the session's trainables, once there is one

    def take(self, index: int, gradient: np.ndarray) -> None:
        """The session's, on the thread of the step."""
        with self._changed:
            self._taken[index] = gradient
            self._changed.notify()

    def is_complete(self) -> bool:
        return self._failure is None

    @contextmanager
    def during(self, session: Session) -> Iterator[None]:
        """A step of the session. Raises what ended it, where that was another process's end."""
        self._taken, self._failure, self._ended = {}, None, False
        if self._count is None:
            self._count = len(inspect(session.path)["trainables"])
        thread = threading.Thread(target=self._run, args=(session, self._count), name="mebp-sums", daemon=True)
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

    def _run(self, session: Session, count: int) -> None:
        bucket: list[tuple[int, np.ndarray]] = []
        for index in range(count - 1, -1, -1):
            gradient = self._next(index)
            if gradient is None:
                break
            bucket.append((index, gradient))
            if sum(each.nbytes for _, each in bucket) >= _BUCKET or index == 0:
                self._sum(bucket, session)
                bucket = []

    def _next(self, index: int) -> np.ndarray | None:
        with self._changed:
            self._changed.wait_for(lambda: index in self._taken or self._ended)
            return self._taken.pop(index, None)

    def _sum(self, bucket: list[tuple[int, np.ndarray]], session: Session) -> None:
        whole = np.concatenate([gradient for _, gradient in bucket])
        try:
            if self._failure is None:
                self._group.sum_in_tree(whole)
        except Error as error:
            self._failure = error  # and gradients are given back all the same, for the step waits for them
        begin = 0
        for index, gradient in bucket:
            gradient[:] = whole[begin : begin + gradient.size]
            begin += gradient.size
            session.native.give_gradient(index)
