# SPDX-License-Identifier: Apache-2.0
"""What a session can compute on."""

import json
from dataclasses import dataclass

from mebp.extension import load_runtime
from mebp.numbers import checked


@dataclass(frozen=True)
class Device:
    """One that mebp knows, whether it is there or not."""

    name: str  # for mebp.Session and --device
    is_there: bool
    description: str  # what it is; or why it is not there, and how to get it
    memory_bytes: int  # all of it; 0 where it does not tell
    tested: str  # what its last self-test found; "" where none is known


def devices() -> list[Device]:
    """All devices that mebp knows, the CPU first. Looking at one loads the library that drives it."""
    return [Device(*found) for found in load_runtime().devices()]


@dataclass(frozen=True)
class DeviceTest:
    """What came of comparing each kernel of a device with the CPU's naive ones."""

    kernels: dict[str, dict]  # of each "calls", "in_bf16", and the largest relative errors "f32" and "bf16"
    avoided: list[str]  # what is wrong and is computed in another way, with how wrong it is
    wrong: list[str]  # calls that no way computes right: the device is refused
    missing: list[str]  # kernels that the device does not have: a bundle that needs one is refused
    seconds: float

    @property
    def sound(self) -> bool:
        return not self.wrong

    @property
    def calls(self) -> int:
        return sum(kernel["calls"] for kernel in self.kernels.values())


@checked
def test_device(name: str) -> DeviceTest:
    """Tests a device now, for a second or two, and keeps what is found for the sessions that follow. The first session
    on a device does so by itself. Raises mebp.Error where the device is not there."""
    found = json.loads(load_runtime().test_device(name))
    return DeviceTest(*(found[field] for field in ("kernels", "avoided", "wrong", "missing", "seconds")))
