# SPDX-License-Identifier: Apache-2.0
"""What mebp.compile is asked for of a kind of adapters, and what that kind has between A and B.

Rows are tokens; u is [tokens, rank_down] and v [tokens, rank_up].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np


class RemoteAdapter:
    """What is trained instead of LoRA. Fields are mebpc's options, but for `targets` and `layers`."""

    kind: ClassVar[str]  # mebpc's --adapter


@dataclass(frozen=True)
class Middle:
    """By what is trained on one layer, [rows, columns]."""

    # v of u and of what is trained, also for torch: the reference's formula
    apply: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ranks: Callable[[int, int], tuple[int, int]]  # rank_down and rank_up, by its rows and columns
    as_lora: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]  # lora_A and lora_B, by A, B
    find: Callable[[np.ndarray, np.ndarray], np.ndarray]  # it, by u and v in float64: what a server learns
    found_by: str  # in a few words
