# SPDX-License-Identifier: Apache-2.0
"""Whether torchrun has started this process, and which of a group says why all of them end. It imports no torch before
that is so."""

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import Store

_LAUNCHED = (
    "TORCHELASTIC_RUN_ID",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
_WAITS = 2.0  # seconds for lower ranks, which may fail of the same


def is_launched() -> bool:
    return all(name in os.environ for name in _LAUNCHED)


def meeting_place() -> "Store":
    """Where processes leave their addresses. torchrun keeps one place for all its restarts, in which those of processes
    that are gone would be found again: each restart has a part of its own."""
    from datetime import timedelta

    from torch.distributed import PrefixStore, TCPStore

    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    is_agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    size, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    store = TCPStore(host, port, size, not is_agents and rank == 0, timeout=timedelta(minutes=5))
    return PrefixStore(f"{_own_part()}/group", store)


def _own_part() -> str:
    return f"mebp/{os.environ['TORCHELASTIC_RUN_ID']}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"


def says_why() -> bool:
    """Of a process that ends with an error: whether no lower rank does, too, which would say the same. Ranks leave a
    mark in the store where torchrun lets them meet."""
    if not is_launched():
        return True
    try:
        from datetime import timedelta

        from torch.distributed import TCPStore

        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=2))
    except (ImportError, OSError, RuntimeError, ValueError):
        return True
    start = f"{_own_part()}/failed"
    rank = int(os.environ["RANK"])
    store.set(f"{start}/{rank}", b"1")
    until = time.monotonic() + _WAITS
    while time.monotonic() < until and rank:
        if any(store.check([f"{start}/{lower}"]) for lower in range(rank)):
            return False
        time.sleep(0.05)
    return True
