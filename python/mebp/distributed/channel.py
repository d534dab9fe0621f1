# SPDX-License-Identifier: Apache-2.0
"""Arrays from one process of a group to another, on threads of their own beside what all do together."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta

import numpy as np

_TIMEOUT = timedelta(days=30)  # for what is asked for may be asked at any time


class Channel:
    """Made in all processes at the same time. `told`: raises mebp.Error where torch says that another is gone."""

    def __init__(self, told: Callable[[str], AbstractContextManager[None]]) -> None:
        import torch
        import torch.distributed as torch_distributed

        self._torch, self._tensor, self._told = torch_distributed, torch.from_numpy, told
        self._group = torch_distributed.new_group(backend="gloo", timeout=_TIMEOUT)

    def send(self, rank: int, values: np.ndarray, tag: int) -> None:
        with self._told("lost another process"):
            self._torch.send(self._tensor(values), rank, group=self._group, tag=tag)

    def receive(self, values: np.ndarray, tag: int) -> int:
        """From any rank, which it returns."""
        with self._told("lost another process"):
            return self._torch.recv(self._tensor(values), None, group=self._group, tag=tag)

    def receive_of_all(self, ranks: Sequence[int], values: Sequence[np.ndarray], tag: int) -> None:
        with self._told("lost another process"):
            works = [self._torch.irecv(self._tensor(each), rank, group=self._group, tag=tag)
                     for rank, each in zip(ranks, values, strict=True)]  # fmt: skip
            for work in works:
                work.wait()
