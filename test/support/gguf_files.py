# SPDX-License-Identifier: Apache-2.0
"""Small GGUF files, byte by byte, with whatever may be wrong in one."""

import struct
from dataclasses import dataclass, field, replace

import numpy as np

SCALARS = {"u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"), "u32": (4, "I"), "i32": (5, "i"),
           "f32": (6, "f"), "bool": (7, "B"), "u64": (10, "Q"), "i64": (11, "q"), "f64": (12, "d")}  # fmt: skip
STRING, ARRAY = 8, 9
TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "BF16": 30}
BLOCKS = {"F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q8_0": (32, 34),
          "Q4_K": (256, 144), "Q6_K": (256, 210)}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """`shape` is row-major; an offset of None is where the tensor belongs."""

    name: str | bytes
    shape: tuple[int, ...]
    kind: str | int = "F32"
    offset: int | None = None
    content: bytes | None = None  # zeros


@dataclass(frozen=True)
class File:
    """A header's number of None is the right one."""

    keys: list[tuple[str | bytes, object]]  # what `encode` takes
    tensors: list[Tensor]
    version: int = 3
    key_count: int | None = None
    tensor_count: int | None = None
    alignment: int = 32
    magic: bytes = b"GGUF"

    def without(self, *names: str) -> "File":
        return replace(self, keys=[each for each in self.keys if each[0] not in names])

    def with_key(self, name: str | bytes, value: object) -> "File":
        """In its place, or at the end."""
        keys = [(each, value if each == name else old) for each, old in self.keys]
        return replace(self, keys=keys if name in dict(self.keys) else [*keys, (name, value)])

    def bytes(self) -> bytes:
        tensors = len(self.tensors) if self.tensor_count is None else self.tensor_count
        keys = len(self.keys) if self.key_count is None else self.key_count
        head = [self.magic, struct.pack("<IQQ", self.version, tensors, keys)]
        head += [_text(name) + encode(value) for name, value in self.keys]
        data = b""
        for tensor in self.tensors:
            content = _content(tensor)
            offset = len(data) if tensor.offset is None else tensor.offset
            kind = TYPES.get(tensor.kind, tensor.kind)
            extents = b"".join(struct.pack("<Q", each) for each in tensor.shape[::-1])
            head.append(_text(tensor.name) + struct.pack("<I", len(tensor.shape)) + extents)
            head.append(struct.pack("<IQ", kind, offset % (1 << 64)))
            data += content + bytes(-len(content) % self.alignment)
        start = b"".join(head)
        return start + bytes(-len(start) % self.alignment) + data


@dataclass(frozen=True)
class Raw:
    """A value whose bytes, type and all, are given."""

    content: bytes


@dataclass(frozen=True)
class Array:
    """Of scalars of a type, of strings ("string") or of arrays ("array"); a length of None is the right one."""

    kind: str
    values: list = field(default_factory=list)
    length: int | None = None


def encode(value: object) -> bytes:
    """Of (type, number), str or bytes, Array or Raw."""
    if isinstance(value, Raw):
        return value.content
    if isinstance(value, str | bytes):
        return struct.pack("<I", STRING) + _text(value)
    if isinstance(value, Array):
        return struct.pack("<I", ARRAY) + _array(value)
    kind, number = value
    return struct.pack("<I", SCALARS[kind][0]) + struct.pack(f"<{SCALARS[kind][1]}", number)


def _array(array: Array) -> bytes:
    kind = {"string": STRING, "array": ARRAY}.get(array.kind) or SCALARS.get(array.kind, (99,))[0]
    length = len(array.values) if array.length is None else array.length
    head = struct.pack("<IQ", kind, length)
    if array.kind == "string":
        return head + b"".join(map(_text, array.values))
    if array.kind == "array":
        return head + b"".join(map(_array, array.values))
    code = SCALARS.get(array.kind, (99, "B"))[1]
    return head + struct.pack(f"<{len(array.values)}{code}", *array.values)


def _text(text: str | bytes) -> bytes:
    content = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(content)) + content


def _content(tensor: Tensor) -> bytes:
    if tensor.content is not None:
        return tensor.content
    block, size = BLOCKS.get(tensor.kind, (1, 4))
    elements = int(np.prod([min(each, 4096) for each in tensor.shape], dtype=object)) if tensor.shape else 0
    return bytes(min(elements // block * size, 1 << 16))
