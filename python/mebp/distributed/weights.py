# SPDX-License-Identifier: Apache-2.0
"""Weights of which each process has a part in memory (--shard weights).

Terms: a block's region is what of weights.bin is its own (mebp_bundle_block_region). Its shards are parts of as many
bytes, one of each rank, which begin at multiples of a page.

1. Each process maps the file, and touches its own shards of it alone; and the rows of tokens, where they are looked up.
2. The session asks for a block before another one runs. A thread asks all others for their shards, and puts them
   together in a buffer, in which the region lies byte for byte. So results have the bits of a file that is mapped.
3. Another thread sends shards to whoever asks. So no process waits for others to be at the same block, and one may
   measure while others stand still.
4. A block is asked for once for all chunks and rows of a micro-batch, and in each direction.
"""

import os
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np

from mebp.distributed.group import Group
from mebp.distributed.taker import BlockWeights
from mebp.errors import Error
from mebp.extension import load_runtime

_PAGE = 1 << 14
_ASKS, _GIVES = 1, 2  # tags
_ENDS = -1  # in place of a block


def shards(size: int, ranks: int) -> list[tuple[int, int]]:
    """(begin, end) within a region of so many bytes, of each rank."""
    each = -(-size // (ranks * _PAGE)) * _PAGE
    return [(min(rank * each, size), min((rank + 1) * each, size)) for rank in range(ranks)]


class ShardedWeights(BlockWeights):
    """`weights` of a session over the bundle whose file this is, with (offset, bytes) of each block's region."""

    def __init__(self, group: Group, file: Path, regions: Sequence[tuple[int, int]]) -> None:
        self._group, self._regions = group, regions
        self._file = np.memmap(file, np.uint8, "c")  # which torch takes; nothing is written
        self._shards = [shards(size, group.size) for _, size in regions]
        self._others = [rank for rank in range(group.size) if rank != group.rank]
        self._free: dict[int, list[np.ndarray]] = {}  # buffers, by their bytes
        self._used: dict[int, tuple[np.ndarray, Future[None]]] = {}  # by block
        self.failure: Error | None = None
        self.received = 0  # bytes
        self._channel = group.channel()
        self._fetches = ThreadPoolExecutor(1, "mebp-weights")
        self._server = threading.Thread(target=self._serve, name="mebp-shards", daemon=True)
        self._server.start()

    @classmethod
    def of_bundle(cls, group: Group, bundle: Path) -> "ShardedWeights":
        """Which each process has."""
        regions = load_runtime().Bundle(os.fspath(bundle)).block_regions()
        return cls(group, bundle / "weights.bin", regions)

    @property
    def bytes_beside(self) -> int:
        """Of buffers: of each size as many as blocks that follow one another need. A head that is tied to the
        embedding reads its whole table, and the embedding looks up rows in the file."""
        table, *sizes = (_padded(size) for _, size in self._regions)
        blocks = [[size] for size in sizes]
        if sizes[-1] < table:
            blocks[-1].append(table)
        together = [Counter(chain(*blocks[begin : begin + self.ahead + 1])) for begin in range(len(blocks))]
        return sum(size * max(each[size] for each in together) for size in set(chain(*blocks)))

    def ask(self, block: int, following: int) -> int:
        size = _padded(self._regions[block][1])
        looks_rows_up = (block, following) == (0, 1)  # and does not read the table as the head that is tied to it
        if size == 0 or looks_rows_up:
            return 0
        free = self._free.setdefault(size, [])
        buffer = free.pop() if free else _pages(size)
        self._used[block] = buffer, self._fetches.submit(self._fetch, block, buffer)
        return buffer.ctypes.data

    def ready(self, block: int) -> bool:
        try:
            self._used[block][1].result()
        except Error as error:
            self.failure = error
        return self.failure is None

    def free(self, block: int) -> None:
        if block in self._used:
            buffer, fetched = self._used.pop(block)
            fetched.exception()  # until it is there, it is written to
            self._free[buffer.size].append(buffer)

    def close(self) -> None:
        """In all processes, when none asks any more."""
        for rank in self._others:
            self._channel.send(rank, np.array([_ENDS]), _ASKS)
        self._server.join()
        self._fetches.shutdown()

    def _fetch(self, block: int, memory: np.ndarray) -> None:
        for rank in self._others:
            self._channel.send(rank, np.array([block]), _ASKS)
        offset, _ = self._regions[block]
        begin, end = self._shards[block][self._group.rank]
        memory[begin:end] = self._file[offset + begin : offset + end]
        parts = [memory[slice(*self._shards[block][rank])] for rank in self._others]
        self._channel.receive_of_all(self._others, parts, _GIVES)
        self.received += sum(part.size for part in parts)

    def _serve(self) -> None:
        asked, left = np.zeros(1, np.int64), len(self._others)
        try:
            while left:
                rank = self._channel.receive(asked, _ASKS)
                block = int(asked[0])
                if block == _ENDS:
                    left -= 1
                    continue
                offset, _ = self._regions[block]
                begin, end = self._shards[block][self._group.rank]
                self._channel.send(rank, self._file[offset + begin : offset + end], _GIVES)
        except (Error, IndexError):
            pass  # whoever asked sees that nothing comes


def _pages(size: int) -> np.ndarray:
    """Memory that begins at a multiple of _PAGE, of which none is touched."""
    memory = np.empty(size + _PAGE, np.uint8)
    begin = -memory.ctypes.data % _PAGE
    return memory[begin : begin + size]


def _padded(size: int) -> int:
    return -(-size // _PAGE) * _PAGE
