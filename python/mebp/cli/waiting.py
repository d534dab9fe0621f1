# SPDX-License-Identifier: Apache-2.0
"""What a terminal shows while a command computes; nothing elsewhere."""

from contextlib import AbstractContextManager, nullcontext


def waiting(for_what: str) -> AbstractContextManager:
    from rich.console import Console

    console = Console(stderr=True)
    return console.status(for_what) if console.is_terminal else nullcontext()
