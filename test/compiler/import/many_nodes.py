# SPDX-License-Identifier: Apache-2.0
"""many_nodes.py MODEL.onnx COUNT HEX: a model of so many nodes, each with these bytes."""

import sys
from pathlib import Path


def varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


target, count, node = sys.argv[1:]
Path(target).write_bytes(field(7, field(1, bytes.fromhex(node)) * int(count)))
