# SPDX-License-Identifier: Apache-2.0
"""mebp devices: what is there, and why another is not"""

import argparse
import json
import shutil
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

from mebp.words import say

if TYPE_CHECKING:
    from mebp.device import Device, DeviceTest

_NARROWEST = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--test", action="store_true", help="compare the kernels of each device that is there with the CPU's naive ones"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    import mebp
    from mebp.cli.main import DISAGREES

    tests = {one.name: mebp.test_device(one.name) for one in mebp.devices() if arguments.test and one.is_there}
    found = mebp.devices()  # with what the tests have found
    if arguments.json:
        described = [asdict(one) | ({"test": asdict(tests[one.name])} if one.name in tests else {}) for one in found]
        say(json.dumps(described))
    else:
        _print(found, tests)
    return 0 if all(test.sound for test in tests.values()) else DISAGREES


def _print(found: "list[Device]", tests: "dict[str, DeviceTest]") -> None:
    width = max(len(device.name) for device in found)
    room = max(_NARROWEST, shutil.get_terminal_size().columns - width - 2)
    for device in found:
        memory = f", {device.memory_bytes / 1e9:.1f} GB" if device.memory_bytes else ""
        text = f"{device.description}{memory}" if device.is_there else f"not there: {device.description}"
        name = device.name
        for paragraph in [text, device.tested] if device.tested else [text]:
            for line in textwrap.wrap(paragraph, room, break_long_words=False, break_on_hyphens=False):
                say(f"{name:{width}}  {line}")
                name = ""
    for name, test in tests.items():
        say(f"\n{_table(name, test)}")
        for what, lines in (("missing", test.missing), ("avoided", test.avoided), ("wrong", test.wrong)):
            for line in lines:
                say(f"{what}: {line}")


def _table(name: str, test: "DeviceTest") -> str:
    from mebp.tables import Table

    rows = [
        [kernel, str(one["calls"]), f"{one['f32']:.1e}", f"{one['bf16']:.1e}" if one["in_bf16"] else ""]
        for kernel, one in test.kernels.items()
    ]
    title = f"{name}: {test.calls} calls in {test.seconds:.1f} s; the largest relative errors"
    return str(Table(title, ["kernel", "calls", "f32", "bf16"], rows))
