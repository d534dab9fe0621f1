# SPDX-License-Identifier: Apache-2.0
"""Which pages of files the system keeps in memory, and how to have it forget them."""

import ctypes
import os
from pathlib import Path

import numpy as np

PAGE = os.sysconf("SC_PAGE_SIZE")
_libc = ctypes.CDLL(None, use_errno=True)


def cached_bytes(path: Path) -> int:
    """How much of the file is in the page cache, in whole pages."""
    if path.stat().st_size == 0:
        return 0
    pages = np.memmap(path, np.uint8, "r")
    states = np.zeros(-(-pages.size // PAGE), np.uint8)
    address, length = ctypes.c_void_p(pages.ctypes.data), ctypes.c_size_t(pages.size)
    if _libc.mincore(address, length, ctypes.c_void_p(states.ctypes.data)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    return int((states & 1).sum()) * PAGE


def drop_cached(folder: Path) -> None:
    """Writes out every file below `folder` and drops its pages. Raises OSError where the system keeps some."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if kept := cached_bytes(path):
            raise OSError(f"{path}: {kept:,} bytes stay in memory; put it on a disk, where no other process uses it")
