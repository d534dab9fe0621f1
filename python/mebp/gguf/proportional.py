# SPDX-License-Identifier: Apache-2.0
"""Proportional positions, of Gemma 4's layers that attend to all: they turn the first part of each half of a head, and
a file says so by what frequencies are divided by."""

import math
from collections.abc import Mapping

import numpy as np

from mebp.errors import Error
from mebp.gguf import READ_ADVICE, ROPE_FACTORS
from mebp.gguf.container import Container
from mebp.gguf.gemma4_settings import of_full
from mebp.gguf.positions import rope_of

_STILL = np.float32(1e30)  # what divides the frequency of numbers that no position turns


def proportional_factors(config: Mapping) -> np.ndarray:
    """float32 [half a head]; llama.cpp wants them where all are one, too."""
    rope, (width, _) = rope_of(config), of_full(config)
    is_whole = rope.get("rope_type", "default") == "default"
    turned = width // 2 if is_whole else _turned(width, rope.get("partial_rotary_factor") or 1.0)
    return np.where(np.arange(width // 2) < turned, np.float32(1), _STILL)


def read_proportional(container: Container, config: dict) -> None:
    """Sets the positions of layers that attend to all in `config` by the file's factors."""
    found = next((tensor for tensor in container.tensors if tensor.name == ROPE_FACTORS), None)
    if found is None:
        raise Error(f"{container.path}: lacks the tensor '{ROPE_FACTORS}'; download it again")
    factors, (width, _) = container.values(found).reshape(-1), of_full(config)
    turned = int((factors == 1).sum())
    if not np.array_equal(factors, np.where(np.arange(width // 2) < turned, np.float32(1), _STILL)):
        raise Error(f"{container.path}: has factors of positions ({ROPE_FACTORS}) that are not those of Gemma 4; "
                    f"{READ_ADVICE}")  # fmt: skip
    share = 2 * turned / width
    if _turned(width, share) != turned:  # a quotient of these may be a bit too small
        share = math.nextafter(share, 1)
    config["rope_parameters"]["full_attention"] |= {"rope_type": "proportional", "partial_rotary_factor": share}


def _turned(width: int, share: float) -> int:
    """Pairs of a head, as transformers counts them."""
    return int(share * width // 2)
