# SPDX-License-Identifier: Apache-2.0
"""Work on one thing while another thread makes the next."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

Item = TypeVar("Item")
_END = object()


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items; at most one is made before it is asked for."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        run = copy_context().run  # it tells things to whom this thread does
        following = thread.submit(run, next, items, _END)
        while (item := following.result()) is not _END:
            following = thread.submit(run, next, items, _END)
            yield item
