# SPDX-License-Identifier: Apache-2.0
"""Keeps the hub's client off the network while transformers reads what somebody else wrote."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def offline() -> Iterator[None]:
    """As with HF_HUB_OFFLINE=1, which is read at import alone: what is not in the cache is not there."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
