# SPDX-License-Identifier: Apache-2.0
"""What processes of a group compare."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

import mebp.distributed.global_batch as tested
from mebp.errors import Error


class TwoRanks:
    """As the first of two sees them. told: of each call of gather_json what the other says; None: the same."""

    rank, size, is_first = 0, 2, True

    def __init__(self, *told: object) -> None:
        self._told = iter(told)

    def gather_json(self, value: object) -> list[object]:
        return [value, value if (other := next(self._told)) is None else other]

    def gather(self, values: list[int]) -> np.ndarray:
        return np.array([values, [values[0] + 1]])  # another digest


class Session:
    path, kernels, steps = "a.mebp", "avx2", 49
    native = SimpleNamespace(read_trainable=lambda index: np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("kernels", "machine", "compares", "line"),
    [
        (None, None, True, ""),
        ("amx_bf16", None, True, "rank 1 runs amx_bf16 kernels, and rank 0 avx2 ones"),
        ("neon", "another", False, "rank 1 runs neon kernels, and rank 0 avx2 ones"),
    ],
)
def test_adapters_are_compared_where_machines_update_alike(monkeypatch, capsys, kernels, machine, compares, line):
    monkeypatch.setattr(tested, "share_state", lambda group, session: None)
    monkeypatch.setattr(
        tested,
        "GradientSums",
        lambda *_: SimpleNamespace(during=lambda session: nullcontext(), sizes=lambda session: [3]),
    )
    batch = tested.GlobalBatch(2, TwoRanks(kernels, machine))
    session = Session()
    batch.begin_alike(session, None)
    end = ", which round differently: another number of processes gives other bits\n" if line else ""
    assert capsys.readouterr().err == (f"note: {line}{end}" if line else "")
    session.apply = lambda: None
    if not compares:
        batch.apply(session)
        return
    with pytest.raises(Error, match="^rank 1 has another adapter than rank 0; "):
        batch.apply(session)
