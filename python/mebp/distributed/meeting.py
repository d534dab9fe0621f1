# SPDX-License-Identifier: Apache-2.0
"""Where the processes of a group find one another, and see that all are alive.

torchrun keeps one store for all its restarts. What the processes of an earlier start have left there would be taken for
the present ones', and restarts have no number that all machines have in common. So rank 0 makes a name for each start:
1. Every other rank writes down a name of its own, in the place of the one before it, and waits for an answer to it.
2. Rank 0 answers each name that it finds, also one that takes another's place, until all ranks have agreed.
3. Everything else of this start has that name before it.

From then on each process counts up a number of its own there, and looks at those of the others.
"""

import math
import os
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from mebp.distributed.launched import store_of_agent
from mebp.errors import Error

if TYPE_CHECKING:
    from torch.distributed import Store

_MEETS_WITHIN, _LOOKS_EVERY = 300.0, 0.02  # seconds
_BEATS_EVERY, _LOST_AFTER = 2.0, 60.0


def meet(rank: int, size: int) -> "Store":
    """The part of torchrun's store that this start has. Raises RuntimeError where not all come."""
    from torch.distributed import PrefixStore

    store, until = store_of_agent(timedelta(seconds=_MEETS_WITHIN)), time.monotonic() + _MEETS_WITHIN
    own = uuid.uuid4().hex
    if rank:
        store.set(f"asks/{rank}", own)
        name = store.get(f"answer/{own}").decode()
        store.set(f"agrees/{name}/{rank}", own)
        return PrefixStore(name, store)
    answered: dict[int, bytes] = {}
    missing = set(range(1, size))
    while missing:
        if time.monotonic() > until:
            raise RuntimeError(f"rank {min(missing)} has not come within {_MEETS_WITHIN:.0f} s")
        for other in sorted(missing):
            if store.check([f"asks/{other}"]) and (asked := store.get(f"asks/{other}")) != answered.get(other):
                store.set(f"answer/{asked.decode()}", own)
                answered[other] = asked
            if store.check([f"agrees/{own}/{other}"]):
                missing.remove(other)
        time.sleep(_LOOKS_EVERY)
    return PrefixStore(own, store)


def lost_after() -> float:
    """Seconds after which a process counts as lost. Raises mebp.Error where MEBP_LOST_AFTER is no such number."""
    named = os.environ.get("MEBP_LOST_AFTER") or _LOST_AFTER
    with suppress(ValueError):
        if 0 < float(named) < math.inf:
            return float(named)
    raise Error(f"MEBP_LOST_AFTER={named}: is not a number of seconds above 0; give one, such as {_LOST_AFTER:g}")


class Heartbeat:
    """Tells the others that this process lives, and calls `lost` with the rank of one that has not for `lost_after`
    seconds, or with None where the store has not answered for as long.

    Seconds are those in which this process runs: whoever is stopped and continued has not lost the others by that.
    """

    def __init__(
        self, store: "Store", rank: int, size: int, lost_after: float, lost: Callable[[int | None], None]
    ) -> None:
        self._store, self._rank, self._lost, self.lost_after = store, rank, lost, lost_after
        self._every = min(_BEATS_EVERY, lost_after / 4)
        self._lived = self._answered = 0.0
        self._others = {other: (b"", 0.0) for other in range(size) if other != rank}
        self._ended = threading.Event()
        # The store may keep the first of them waiting, without a limit.
        self._threads = [threading.Thread(target=run, name="mebp-heartbeat", daemon=True)
                         for run in (self._beat, self._watch)]  # fmt: skip
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """The others miss it no more."""
        self._ended.set()
        for thread in self._threads:
            thread.join(self.lost_after)
        with suppress(RuntimeError, OSError):
            if not self._threads[0].is_alive():
                self._store.set(f"ended/{self._rank}", b"1")

    def is_first_to_tell(self) -> bool:
        """Whether no other process of this start has told of a loss. One that was stopped goes on where the one that
        has lost it is gone by then. On the thread that calls `lost` with a rank."""
        with suppress(RuntimeError, OSError):
            return self._store.add("told", 1) == 1
        return True

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(self._every):
            now = time.monotonic()
            self._lived += min(now - before, 2 * self._every)
            before = now
            if self._lived - self._answered > self.lost_after:
                self._lost(None)

    def _beat(self) -> None:
        beats = 0
        while not self._ended.wait(self._every):
            beats += 1
            with suppress(RuntimeError, OSError):
                self._store.set(f"beat/{self._rank}", str(beats))
                for other in list(self._others):
                    self._look_at(other)
                self._answered = self._lived

    def _look_at(self, other: int) -> None:
        if self._store.check([f"ended/{other}"]):
            del self._others[other]
            return
        seen, when = self._others[other]
        now = self._store.get(f"beat/{other}") if self._store.check([f"beat/{other}"]) else b""
        if now != seen:
            self._others[other] = now, self._lived
        elif self._lived - when > self.lost_after:
            self._lost(other)
