# SPDX-License-Identifier: Apache-2.0
"""Where a checkpoint's tensors lie: reads safetensors headers, never the tensors."""

import json
import math
import os
import reprlib
import struct
from dataclasses import dataclass, replace
from pathlib import Path

from mebp.errors import Error, translate_errors
from mebp.files import open_regular, read_json

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_METADATA = "__metadata__"
_ADVICE = "download it again"
_CHUNK = 1 << 22
_LONGEST_HEADER = 100_000_000  # as in the safetensors library
_LARGEST = 1 << 62
_MOST_DIMENSIONS = 8
_LONGEST_NAME = 1000


@dataclass(frozen=True)
class StoredTensor:
    """A tensor's place: `length` bytes at `offset` of `file`, row-major; `dtype` is what safetensors calls it.
    `blocks`: where the same numbers lie as a GGUF file has them, whose type is its dtype."""

    file: Path
    offset: int
    length: int
    dtype: str
    shape: tuple[int, ...]
    blocks: "StoredTensor | None" = None

    def part(self, begin: int, end: int) -> "StoredTensor":
        """So many of its rows or, of a stack, of its matrices."""
        width = self.length // self.shape[0]
        place = {"offset": self.offset + begin * width, "length": (end - begin) * width}
        blocks = self.blocks and replace(self.blocks, shape=self.shape).part(begin, end)
        return replace(self, shape=(end - begin, *self.shape[1:]), blocks=blocks, **place)


def read_header(file: Path) -> dict[str, StoredTensor]:
    """The tensors of one safetensors file, by name; raises Error where header and file size disagree."""
    text, size = _header_text(file)
    start = 8 + len(text)
    try:
        header = json.loads(text)
        header.pop(_METADATA, None)
        tensors = {_checked(name): _stored(file, start, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Error(f"{file}: not a safetensors file; {_ADVICE}") from error
    end = max((tensor.offset + tensor.length for tensor in tensors.values()), default=start)
    if end > size:
        raise Error(f"{file}: truncated ({size} bytes where its header promises {end}); {_ADVICE}")
    if sum(tensor.length for tensor in tensors.values()) > size - start:  # a small file could ask for any memory
        raise Error(f"{file}: has tensors that lie in the same bytes; {_ADVICE}")
    return tensors


def is_of_mlx(file: Path) -> bool:
    """Whether MLX says that it has written this file, whose header can be read."""
    metadata = json.loads(_header_text(file)[0]).get(_METADATA)
    return isinstance(metadata, dict) and metadata.get("format") == "mlx"


def _header_text(file: Path) -> tuple[bytes, int]:
    """A file's header, and how large the file is."""
    with open_regular(file, _ADVICE) as stream:
        size = os.fstat(stream.fileno()).st_size
        prefix = stream.read(8)
        header_bytes = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else size
        if 8 + header_bytes > size:
            raise Error(f"{file}: truncated ({size} bytes do not hold its header); {_ADVICE}")
        if header_bytes > _LONGEST_HEADER:
            raise Error(f"{file}: has a header of {header_bytes} bytes, more than safetensors allows; {_ADVICE}")
        return stream.read(header_bytes), size


def _checked(name: str) -> str:
    """Raises ValueError for a name that no line could show, or no file hold."""
    if len(name) > _LONGEST_NAME:
        raise ValueError("no tensor has so long a name")
    name.encode()
    return name


def _stored(file: Path, start: int, entry: dict) -> StoredTensor:
    """One entry of a header, whose data begins at byte `start`; raises ValueError for what cannot be."""
    (begin, end), shape, dtype = entry["data_offsets"], entry["shape"], entry["dtype"]
    if any(type(number) is not int or not 0 <= number < _LARGEST for number in (begin, end, *shape)) or begin > end:
        raise ValueError("sizes are whole numbers, and nothing ends before it begins")
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS or math.prod(shape) >= _LARGEST:
        raise ValueError("a shape is a short list")
    if not isinstance(dtype, str):
        raise ValueError("an element type is a name")
    return StoredTensor(file, start + begin, end - begin, dtype, tuple(shape))


def read_checkpoint(folder: Path) -> dict[str, StoredTensor]:
    """All tensors of the model in `folder`, whether in one file or in shards; raises Error where there are none."""
    if (folder / _SINGLE).exists():
        return read_header(folder / _SINGLE)
    if (folder / _INDEX).exists():
        return _read_shards(folder)
    if any(folder.glob("*.bin")) or any(folder.glob("*.pth")):
        raise Error(f"{folder}: weights only as .bin; save them as safetensors (save_pretrained does) and export again")
    raise Error(f"{folder}: no {_SINGLE} and no {_INDEX}; export needs the weights, but for mebp export --shape-only")


def weight_files(folder: Path) -> list[Path]:
    """The files that read_checkpoint would read, by name; raises Error where there are none."""
    return sorted({tensor.file for tensor in read_checkpoint(folder).values()})


def same_bytes(a: StoredTensor, b: StoredTensor) -> bool:
    """Whether two tensors are equal bit for bit."""
    if (a.dtype, a.shape, a.length) != (b.dtype, b.shape, b.length):
        return False
    unreadable = translate_errors(f"{a.file.parent}: cannot be read", _ADVICE)
    with unreadable, a.file.open("rb") as left, b.file.open("rb") as right:
        left.seek(a.offset)
        right.seek(b.offset)
        for start in range(0, a.length, _CHUNK):
            size = min(_CHUNK, a.length - start)
            if left.read(size) != right.read(size):
                return False
    return True


def _read_shards(folder: Path) -> dict[str, StoredTensor]:
    places = read_json(folder / _INDEX, _ADVICE).get("weight_map")
    if not isinstance(places, dict):
        raise Error(f"{folder / _INDEX}: no weight_map; {_ADVICE}")
    for shard in places.values():
        if not isinstance(shard, str):
            raise Error(f"{folder / _INDEX}: shard {reprlib.repr(shard)} is not a name; save the model again")
    headers = {}
    for shard in sorted(set(places.values())):
        # A shard's name becomes a path beside the ONNX file, so it must not lead elsewhere.
        if Path(shard).name != shard or shard == ".." or "\0" in shard:
            raise Error(f"{folder / _INDEX}: shard '{shard}' is not a plain file name; save the model again")
        if not (folder / shard).exists():
            raise Error(f"{folder / shard}: missing, though {_INDEX} lists it; {_ADVICE}")
        headers[shard] = read_header(folder / shard)
    tensors = {}
    for name, shard in places.items():
        if name not in headers[shard]:
            raise Error(f"{folder / shard}: no tensor '{name}', though {_INDEX} lists it; {_ADVICE}")
        tensors[name] = headers[shard][name]
    return tensors
