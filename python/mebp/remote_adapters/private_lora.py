# SPDX-License-Identifier: Apache-2.0
"""PrivateLoRA: v = M u."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mebp.numbers import check_fields
from mebp.remote_adapters.middle import Middle, RemoteAdapter

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class PrivateLoRA(RemoteAdapter):
    """What is trained instead: M of W + B M A, with A [rank_down, in], M [rank_up, rank_down] and B [out, rank_up].

    A and B are random and frozen, and M begins with zeros (Wang et al., "PrivateLoRA for efficient privacy preserving
    LLM").

    share_a: one A for layers that read one value, as q, k and v do.
    targets: as LoRA's. None of them may read what another one of the same layer gives, as o_proj does of v_proj.
    layers: the numbers of the layers to adapt, one after the other, such as range(8); None for all.
    """

    kind = "private-lora"
    rank_down: int = 32
    rank_up: int = 32
    share_a: bool = False
    targets: str | Sequence[str] = ("q_proj", "k_proj", "v_proj")
    layers: Sequence[int] | None = None

    def __post_init__(self) -> None:
        check_fields(self)


def _find(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    import numpy as np

    return np.linalg.lstsq(u, v, rcond=None)[0].T


PRIVATE_LORA = Middle(
    apply=lambda u, m: u @ m.T,
    ranks=lambda rows, columns: (columns, rows),
    as_lora=lambda a, b, m: (a, b @ m),
    find=_find,
    found_by="least squares from u and v",
)
