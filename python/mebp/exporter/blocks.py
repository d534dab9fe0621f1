# SPDX-License-Identifier: Apache-2.0
"""Blocks of codes beside the numbers that an export has of them, which a bundle stores as they are."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from mebp.exporter.checkpoint import StoredTensor, read_header


def with_blocks(
    checkpoint: Mapping[str, StoredTensor], types: Mapping[str, str], file: Path
) -> dict[str, StoredTensor]:
    """The checkpoint, whose tensors that `types` names have blocks of that type in `file`, as write_bytes made it."""
    stored = read_header(file) if types else {}
    return {name: replace(tensor, blocks=replace(stored[name], dtype=types[name])) if name in types else tensor
            for name, tensor in checkpoint.items()}  # fmt: skip


def files_of(tensors: Iterable[StoredTensor]) -> list[Path]:
    every = list(tensors)
    return sorted({each.file for each in [*every, *(tensor.blocks for tensor in every if tensor.blocks)]})
