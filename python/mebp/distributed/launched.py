# SPDX-License-Identifier: Apache-2.0
"""Whether torchrun has started this process, and which of a group says why all of them end. It imports no torch before
that is so."""

import os
import time
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.distributed import Store

_LAUNCHED = ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
             "MASTER_PORT")  # fmt: skip
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
    rank, start = int(os.environ["RANK"]), f"failed/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}"
    try:
        store = store_of_agent(timedelta(seconds=2))
        store.set(f"{start}/{rank}", b"1")
        until = time.monotonic() + _WAITS
        while time.monotonic() < until and rank:
            if any(store.check([f"{start}/{lower}"]) for lower in range(rank)):
                return False
            time.sleep(0.05)
    except (ImportError, OSError, RuntimeError, ValueError):
        pass  # torchrun is gone, or never there
    return True
