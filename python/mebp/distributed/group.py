# SPDX-License-Identifier: Apache-2.0
"""The processes that torchrun has started, and what they tell one another: arrays of numbers, and JSON within a limit.
Nothing that is received is ever run or unpickled."""

import atexit
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from mebp.distributed.channel import Channel
from mebp.distributed.launched import is_launched, keep_silent
from mebp.distributed.meeting import Heartbeat, lost_after, meet
from mebp.errors import Error, reason
from mebp.extras import need_packages
from mebp.words import say

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Made = TypeVar("Made")

_LONGEST = 1 << 20  # bytes of JSON that a rank may send
_TIMEOUT = timedelta(minutes=30)  # of a collective: rank 0 may measure on data meanwhile
_PIECE = 1 << 20  # bytes of a file that are sent at once
_TELLS_AFTER = 10.0  # seconds of waiting


class LostError(Error):
    """Another process of the group is gone, which it may say itself."""


class Group:
    def __init__(self) -> None:
        need_packages("torchrun", "distributed", "torch")
        import torch
        import torch.distributed as torch_distributed

        self.rank, self.size = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
        self.local_rank, self.local_size = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
        self.start = int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0)  # may differ among machines
        waits = lost_after()
        self._torch, self._tensor = torch_distributed, torch.from_numpy
        # Its name since torch 2.13.
        self._gather_into = getattr(torch_distributed, "all_gather_single", torch_distributed.all_gather_into_tensor)
        with self._told("cannot meet the other processes"):
            store = meet(self.rank, self.size)
            torch_distributed.init_process_group(
                "gloo", timeout=_TIMEOUT, store=store, rank=self.rank, world_size=self.size
            )
        # Sums go on while a step computes, on a thread of their own; what a step's beginning says goes its own way.
        self._sums: ProcessGroup = torch_distributed.new_group(backend="gloo", timeout=_TIMEOUT)
        self.kept = store.underlying_store  # what all starts have in common
        self._heartbeat = Heartbeat(store.clone(), self.rank, self.size, waits, self._end)
        atexit.register(self.leave)
        if self.is_first and self.size > self.local_size:
            say("note: all machines of the group, and the network between, are trusted (docs/trust.md)", error=True)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @property
    def threads(self) -> int:
        """Those of a process, where nobody says how many: its machine's cores are shared out."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, cores // self.local_size)

    def leave(self) -> None:
        """Where others wait for it, they have lost it."""
        atexit.unregister(self.leave)
        self._heartbeat.end()
        self._torch.destroy_process_group()  # whose threads Python's end would abort

    def _end(self, lost: int | None) -> None:
        """On the heartbeat's thread, while others may wait for what never comes. What is on the disk is whole.

        lost: None where it is the store, of which no process can tell another.
        """
        if lost is None:
            tells = self.local_rank == 0
        else:
            tells = self.rank == (1 if lost == 0 else 0) and self._heartbeat.is_first_to_tell()
        if tells:
            of_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
            store = ("torchrun's store", "torchrun") if of_agent else ("rank 0's store", "its machine")
            what, whose = store if lost is None else (f"rank {lost}", "its machine")
            say(f"mebp: rank {self.rank}: {what} has not answered for {self._heartbeat.lost_after:g} s; see whether "
                f"{whose} and the network are well, and start all again", error=True)  # fmt: skip
            if lost is not None:
                keep_silent(self.kept)
        os._exit(2)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Raises LostError where torch says that another process is gone."""
        try:
            yield
        except (RuntimeError, OSError) as error:
            line = str(reason(error)).splitlines()[0]
            if "EADDRINUSE" in line:
                port = os.environ["MASTER_PORT"]
                raise Error(f"MASTER_PORT={port}: another program has this port; name one that is free") from error
            raise LostError(f"rank {self.rank}: {what} ({line}); see what they say, and start all again") from error

    def channel(self) -> Channel:
        return Channel(self._told)

    def gather(self, values: Sequence[int]) -> np.ndarray:
        """int64 [ranks, values]: as many of each rank."""
        return self._gather(np.array(values, np.int64))

    def gather_numbers(self, values: Sequence[float]) -> np.ndarray:
        """float64 [ranks, values]."""
        return self._gather(np.array(values, np.float64))

    def gather_arrays(self, values: np.ndarray) -> list[np.ndarray]:
        """float64 [of any length]: that of each rank."""
        lengths = self.gather([len(values)])[:, 0]
        rows = self.gather_numbers(np.pad(values, (0, int(lengths.max()) - len(values))))
        return [row[:length] for row, length in zip(rows, lengths, strict=True)]

    def _gather(self, own: np.ndarray) -> np.ndarray:
        import torch

        found = torch.empty(self.size * own.size, dtype=torch.from_numpy(own).dtype)
        with self._told("lost another process"):
            self._gather_into(found, torch.from_numpy(own))
        return found.numpy().reshape(self.size, own.size)

    def gather_json(self, value: object) -> list[object]:
        """What each rank has given. Raises mebp.Error where it is longer than a megabyte, or no JSON."""
        text = json.dumps(value).encode()
        lengths = self.gather([len(text)])[:, 0]
        if lengths.max() > _LONGEST:
            raise Error(
                f"rank {int(lengths.argmax())} tells {lengths.max():,} bytes of itself, above {_LONGEST:,}; start all "
                "from the same mebp"
            )
        padded = np.zeros(int(lengths.max()), np.uint8)
        padded[: len(text)] = np.frombuffer(text, np.uint8)
        rows = self._gather(padded)
        try:
            return [json.loads(row[:length].tobytes()) for row, length in zip(rows, lengths, strict=True)]
        except ValueError as error:
            raise Error(
                f"another process of the group tells no JSON ({reason(error)}); start all from the same mebp"
            ) from error

    def broadcast(self, values: np.ndarray) -> None:
        """Rank 0's, in place."""
        import torch

        with self._told("lost another process"):
            self._torch.broadcast(torch.from_numpy(values), 0)

    def check_alike(self, told: Mapping[str, str]) -> None:
        """Raises mebp.Error where another process has something else of what each tells of itself, by its name."""
        ranks = self.gather_json(told)
        for rank, other in enumerate(ranks):
            first = ranks[0]
            if not isinstance(first, dict) or not isinstance(other, dict):
                raise Error(f"rank {rank} tells nothing of itself; start all from the same mebp")
            for name in sorted(first.keys() | other.keys()):
                if (its := other.get(name)) != (own := first.get(name)):
                    raise Error(f"rank {rank} has {name} {its}, and rank 0 has {own}; start all alike")

    def exchange(self, sent: Sequence[np.ndarray], received: Sequence[np.ndarray]) -> None:
        """Of one dimension each: the r-th that is sent is for rank r, and the r-th that is received is of it. What
        torch has for all ranks at once copies it."""
        received[self.rank][:] = sent[self.rank]
        others = [(self.rank + distance) % self.size for distance in range(1, self.size)]
        with self._told("lost another process"):
            works = [self._torch.irecv(self._tensor(received[rank]), rank, group=self._sums)
                     for rank in others if received[rank].size]  # fmt: skip
            works += [self._torch.isend(self._tensor(sent[rank]), rank, group=self._sums)
                      for rank in others if sent[rank].size]  # fmt: skip
            for work in works:
                work.wait()

    def reduce(self, values: np.ndarray) -> None:
        """float32 [n] becomes the sum over ranks, in place, as torch adds them."""
        with self._told("lost another process"):
            self._torch.all_reduce(self._tensor(values), group=self._sums)

    def send_file(self, file: Path | None, size: int) -> None:
        """Rank 0's of so many bytes, which becomes that of the others who name one."""
        with ExitStack() as stack:
            opened = stack.enter_context(file.open("rb" if self.is_first else "xb")) if file else None
            for begin in range(0, size, _PIECE):
                piece = np.zeros(min(_PIECE, size - begin), np.uint8)
                if self.is_first:
                    read = opened.read(len(piece))
                    piece[: len(read)] = np.frombuffer(read, np.uint8)
                self.broadcast(piece)
                if opened and not self.is_first:
                    opened.write(piece)

    def bring_file(self, rank: int, file: Path, size: int) -> None:
        """That rank's of so many bytes becomes rank 0's."""
        if self.rank not in (0, rank):
            return
        with file.open("xb" if self.is_first else "rb") as opened:
            for begin in range(0, size, _PIECE):
                piece = np.zeros(min(_PIECE, size - begin), np.uint8)
                if not self.is_first:
                    opened.readinto(piece)
                with self._told("lost another process"):
                    if self.is_first:
                        self._torch.recv(self._tensor(piece), rank)
                    else:
                        self._torch.send(self._tensor(piece), 0)
                if self.is_first:
                    opened.write(piece)

    def in_turn(self, make: Callable[[], Made]) -> Made:
        """What `make` returns, which the first process of each machine calls before its others do."""
        made = make() if self.local_rank == 0 else None
        self.gather([0])
        return make() if made is None else made

    def by_first(self, make: Callable[[], object], what: str) -> object:
        """What `make` returns in rank 0, which may be what JSON has. Where it fails, the others end."""
        made = None
        if self.rank:
            self._wait_for_first(what)
        else:
            try:
                made = make()
            except BaseException:
                self.gather([0])
                raise
            self.gather([1])
        return self.gather_json(made)[0]

    def _wait_for_first(self, what: str) -> None:
        import torch

        found, began, told = torch.empty(self.size, dtype=torch.int64), time.monotonic(), False
        with self._told("lost another process"):
            work = self._gather_into(found, torch.ones(1, dtype=torch.int64), async_op=True)
            while not work.is_completed():
                time.sleep(0.02)
                if not told and time.monotonic() - began > _TELLS_AFTER:
                    told = True
                    say(f"rank {self.rank}: waits for rank 0, which is {what}", error=True)
            work.wait()
        if not found.all():
            raise SystemExit(2)  # which says why


@cache
def joined() -> Group | None:
    """The group that torchrun has started this process in; None where it has not. It is joined once."""
    return Group() if is_launched() else None
