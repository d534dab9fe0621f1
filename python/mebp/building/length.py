# SPDX-License-Identifier: Apache-2.0
"""The sequence length that data asks for."""

import math
from dataclasses import dataclass
from pathlib import Path

from mebp.data.loading import sample_lengths
from mebp.files import read_json
from mebp.tokenizer import Tokenizer
from mebp.words import counted

_PACKED = 256
_MULTIPLE = 32
MOST = 1024
_HELD = 0.98  # of the samples: one long one would cost memory in every step
_LOOKED_AT = 2000  # samples, from all over the file


@dataclass(frozen=True)
class Length:
    tokens: int
    reason: str  # why so many


def model_limit(folder: Path) -> int | None:
    """The most positions of the model in `folder`, as its config.json has it; None where it has none."""
    config = read_json(folder / "config.json", "download the model again")
    stated = next((config[name] for name in ("max_position_embeddings", "n_positions") if config.get(name)), None)
    return stated if type(stated) is int and stated > 0 else None


def choose_length(data: Path, tokenizer: Tokenizer, limit: int | None) -> Length:
    """The smallest multiple of 32 that holds 98 % of the samples, and of packed text 256; at most 1024, or `limit`."""
    most = min(MOST, limit or MOST)
    lengths = sample_lengths(data, tokenizer, _LOOKED_AT)
    if lengths is None:
        return Length(min(_PACKED, most), "as usual for packed text")
    return length_of(lengths, most)


def length_of(lengths: list[int], most: int) -> Length:
    """The same for samples of these lengths."""
    lengths = sorted(lengths)
    wanted = lengths[math.ceil(_HELD * len(lengths)) - 1]
    tokens = min(most, -(-wanted // _MULTIPLE) * _MULTIPLE)
    held = sum(length <= tokens for length in lengths)
    of = f"all {counted(len(lengths), 'sample')}" if held == len(lengths) else f"{held:,} of {len(lengths):,} samples"
    return Length(tokens, f"which hold {of}, the longest of {lengths[-1]:,}")
