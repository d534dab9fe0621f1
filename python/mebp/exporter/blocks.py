# SPDX-License-Identifier: Apache-2.0
"""The blocks of a GGUF file beside the numbers that an export has of them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from mebp.exporter.checkpoint import StoredTensor, read_header
from mebp.gguf.blocks import BLOCKS


def with_blocks(
    checkpoint: Mapping[str, StoredTensor], types: Mapping[str, str], folder: Path
) -> dict[str, StoredTensor]:
    """The checkpoint of an unpacked file, whose matrices know their blocks; f32 are their own. `types` as unpack_gguf
    returns them."""
    stored = read_header(folder / BLOCKS) if (folder / BLOCKS).exists() else {}

    def known(name: str, tensor: StoredTensor) -> StoredTensor:
        if name not in types or len(tensor.shape) < 2:
            return tensor
        return replace(tensor, blocks=replace(stored.get(name, tensor), dtype=types[name]))

    return {name: known(name, tensor) for name, tensor in checkpoint.items()}


def files_of(tensors: Iterable[StoredTensor]) -> list[Path]:
    every = list(tensors)
    return sorted({each.file for each in [*every, *(tensor.blocks for tensor in every if tensor.blocks)]})
