# SPDX-License-Identifier: Apache-2.0
"""Where a checkpoint's tensors lie: reads safetensors headers, never the tensors."""

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from mebp.errors import Error

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_CHUNK = 1 << 22


@dataclass(frozen=True)
class StoredTensor:
    """A tensor's place: `length` bytes at `offset` of `file`, row-major; `dtype` is what safetensors calls it."""

    file: Path
    offset: int
    length: int
    dtype: str
    shape: tuple[int, ...]


def read_json(file: Path) -> dict:
    """The JSON object in `file`; raises Error where it is not one."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise Error(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise Error(f"{file}: not valid JSON ({error}); download it again") from error
    if not isinstance(value, dict):
        raise Error(f"{file}: not a JSON object; download it again")
    return value


def read_header(file: Path) -> dict[str, StoredTensor]:
    """The tensors of one safetensors file, by name; raises Error where header and file size disagree."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            prefix = stream.read(8)
            header_bytes = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else size
            if 8 + header_bytes > size:
                raise Error(f"{file}: truncated ({size} bytes do not hold its header); download it again")
            header = json.loads(stream.read(header_bytes))
        header.pop("__metadata__", None)
        start = 8 + header_bytes
        tensors = {
            name: StoredTensor(
                file,
                start + entry["data_offsets"][0],
                entry["data_offsets"][1] - entry["data_offsets"][0],
                entry["dtype"],
                tuple(entry["shape"]),
            )
            for name, entry in header.items()
        }
        end = max((tensor.offset + tensor.length for tensor in tensors.values()), default=start)
    except OSError as error:
        raise Error(f"{file}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise Error(f"{file}: not a safetensors file; download it again") from error
    if end > size:
        raise Error(f"{file}: truncated ({size} bytes where its header promises {end}); download it again")
    return tensors


def read_checkpoint(folder: Path) -> dict[str, StoredTensor]:
    """All tensors of the model in `folder`, whether in one file or in shards; raises Error where there are none."""
    if (folder / _SINGLE).exists():
        return read_header(folder / _SINGLE)
    if (folder / _INDEX).exists():
        return _read_shards(folder)
    if any(folder.glob("*.bin")) or any(folder.glob("*.pth")):
        raise Error(f"{folder}: weights only as .bin; save them as safetensors (save_pretrained does) and export again")
    raise Error(f"{folder}: no {_SINGLE} and no {_INDEX}; export needs the weights, or --shape-only")


def same_bytes(a: StoredTensor, b: StoredTensor) -> bool:
    """Whether two tensors are equal bit for bit."""
    if (a.dtype, a.shape, a.length) != (b.dtype, b.shape, b.length):
        return False
    with a.file.open("rb") as left, b.file.open("rb") as right:
        left.seek(a.offset)
        right.seek(b.offset)
        for start in range(0, a.length, _CHUNK):
            size = min(_CHUNK, a.length - start)
            if left.read(size) != right.read(size):
                return False
    return True


def _read_shards(folder: Path) -> dict[str, StoredTensor]:
    places = read_json(folder / _INDEX).get("weight_map")
    if not isinstance(places, dict):
        raise Error(f"{folder / _INDEX}: no weight_map; download it again")
    headers = {}
    for shard in sorted(set(places.values())):
        # A shard's name becomes a path beside the ONNX file, so it must not lead elsewhere.
        if Path(shard).name != shard:
            raise Error(f"{folder / _INDEX}: shard '{shard}' is not a plain file name; save the model again")
        if not (folder / shard).exists():
            raise Error(f"{folder / shard}: missing, though {_INDEX} lists it; download it again")
        headers[shard] = read_header(folder / shard)
    tensors = {}
    for name, shard in places.items():
        if name not in headers[shard]:
            raise Error(f"{folder / shard}: no tensor '{name}', though {_INDEX} lists it; download it again")
        tensors[name] = headers[shard][name]
    return tensors
