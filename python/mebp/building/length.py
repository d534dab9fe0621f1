# SPDX-License-Identifier: Apache-2.0
"""The sequence length that data asks for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mebp.files import own_file, read_json
from mebp.words import counted

_PACKED = 256
_MULTIPLE, _MOST = 32, 1024
_ROWS = 64  # of an epoch, at least, where samples share them: with fewer, training has few steps
_HELD = 0.98  # of the samples: one long one would cost memory in every step


@dataclass(frozen=True)
class Length:
    tokens: int
    reason: str  # why so many


def model_limit(folder: Path) -> int | None:
    """The most positions of the model in `folder`, as its config.json has it; None where it has none."""
    config = read_json(own_file(folder / "config.json"), "download the model again")
    stated = next((config[name] for name in ("max_position_embeddings", "n_positions") if config.get(name)), None)
    return stated if type(stated) is int and stated > 0 else None


def choose_length(
    lengths: Sequence[int] | None, limit: int | None, may_cut: bool = True, packs: bool = False
) -> Length:
    """The smallest multiple of 32 that holds 98 % of samples of these lengths, and of packed text (None) 256; at most
    1024, or `limit`. Without `may_cut` it holds all of them, unless `limit` is shorter. Where it `packs` several into a
    row, it is longer, up to 256, as far as an epoch keeps 64 rows."""
    most = min(_MOST, limit or _MOST)
    if lengths is None:
        return Length(min(_PACKED, most), "as usual for packed text")
    lengths = sorted(lengths)
    wanted = lengths[math.ceil(_HELD * len(lengths)) - 1]
    if not may_cut:
        wanted, most = lengths[-1], limit or lengths[-1] + _MULTIPLE
    tokens = min(most, -(-wanted // _MULTIPLE) * _MULTIPLE)
    held = sum(length <= tokens for length in lengths)
    of = f"all {counted(len(lengths), 'sample')}" if held == len(lengths) else f"{held:,} of {len(lengths):,} samples"
    shared = min(_PACKED, most, sum(lengths) // _ROWS // _MULTIPLE * _MULTIPLE)
    if packs and tokens < shared:
        return Length(shared, f"in which samples share rows; the longest has {counted(lengths[-1], 'token')}")
    return Length(tokens, f"which holds {of}, the longest of {lengths[-1]:,}")


def is_enough_to_share(lengths: Sequence[int], tokens: int) -> bool:
    """Whether samples of these lengths fill 64 rows of so many tokens."""
    return sum(lengths) >= _ROWS * tokens
