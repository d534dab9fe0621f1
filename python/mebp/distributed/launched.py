# SPDX-License-Identifier: Apache-2.0
"""Whether torchrun has started this process, and which of a group says why all of them end. It imports no torch before
that is so."""

import os
import time

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
    start = f"mebp/{os.environ['TORCHELASTIC_RUN_ID']}/{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}/failed"
    rank = int(os.environ["RANK"])
    store.set(f"{start}/{rank}", b"1")
    until = time.monotonic() + _WAITS
    while time.monotonic() < until and rank:
        if any(store.check([f"{start}/{lower}"]) for lower in range(rank)):
            return False
        time.sleep(0.05)
    return True
