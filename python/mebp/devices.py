# SPDX-License-Identifier: Apache-2.0
"""What a session can compute on."""

from dataclasses import dataclass

from mebp.extension import load_runtime


@dataclass(frozen=True)
class Device:
    """One that mebp knows, whether it is there or not."""

    name: str  # for mebp.Session and --device
    is_there: bool
    description: str  # what it is; or why it is not there, and how to get it
    memory_bytes: int  # all of it; 0 where it does not tell


def devices() -> list[Device]:
    """All devices that mebp knows, the CPU first. Looking at one loads the library that drives it."""
    return [Device(*found) for found in load_runtime().devices()]
