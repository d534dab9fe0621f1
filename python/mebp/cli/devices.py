# SPDX-License-Identifier: Apache-2.0
"""mebp devices: what is there, and why another is not"""

import argparse
import json
import shutil
import textwrap
from dataclasses import asdict

_NARROWEST = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    import mebp

    found = mebp.devices()
    if arguments.json:
        print(json.dumps([asdict(device) for device in found]))
        return 0
    width = max(len(device.name) for device in found)
    room = max(_NARROWEST, shutil.get_terminal_size().columns - width - 2)
    for device in found:
        memory = f", {device.memory_bytes / 1e9:.1f} GB" if device.memory_bytes else ""
        text = f"{device.description}{memory}" if device.is_there else f"not there: {device.description}"
        first, *rest = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
        print(f"{device.name:{width}}  {first}")
        for line in rest:
            print(" " * (width + 2) + line)
    return 0
