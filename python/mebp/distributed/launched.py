# SPDX-License-Identifier: Apache-2.0
"""Whether torchrun has started this process, and which of a group says why all of them end. It imports no torch before
that is so."""

import os
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import Store

_LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_SAID = "said"
_WAITS = 2.0  # seconds for lower ranks, which may fail of the same


def is_launched() -> bool:
    return all(name in os.environ for name in _LAUNCHED)


def store_of_agent(timeout: timedelta) -> "Store":
    """torchrun's, or where it keeps none that of rank 0. Raises RuntimeError where it cannot be reached."""
    from torch.distributed import TCPStore

    is_ours = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" and os.environ["RANK"] == "0"
    return TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, is_ours, timeout, False)


def says_why() -> bool:
    """Of a process that ends with an error: whether no lower rank does, too, which would say the same."""
    if not is_launched():
        return True
    rank, start = int(os.environ["RANK"]), _failures()
    with suppress(ImportError, OSError, RuntimeError, ValueError):  # torchrun is gone, or never there
        store = store_of_agent(timedelta(seconds=2))
        store.set(f"{start}/{rank}", b"1")
        until = time.monotonic() + _WAITS
        while not store.check([f"{start}/{_SAID}"]):
            if rank == 0 or time.monotonic() > until:
                return True
            if any(store.check([f"{start}/{lower}"]) for lower in range(rank)):
                return False
            time.sleep(0.05)
        return False
    return True


def keep_silent(store: "Store") -> None:
    """Makes says_why() false in the others, for this process says why all of them end."""
    with suppress(OSError, RuntimeError):
        store.set(f"{_failures()}/{_SAID}", b"1")


def _failures() -> str:
    return f"failed/{os.environ.get('TORCHELASTIC_RESTART_COUNT') or 0}"
