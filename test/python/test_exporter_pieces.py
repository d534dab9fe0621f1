# SPDX-License-Identifier: Apache-2.0
"""A parameter that a checkpoint has in parts."""

from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.exporter.checkpoint import StoredTensor
from mebp.exporter.weights import check_pieces

SHAPE = (10, 1, 4)  # of a convolution over queries, keys and values


def parts(*shapes: tuple[int, ...], dtype: str = "F32") -> dict[str, StoredTensor]:
    found = {}
    for number, shape in enumerate(shapes):
        length = 4 * shape[0] * shape[1] * (shape[2] if len(shape) > 2 else 1)
        found[f"part{number}"] = StoredTensor(Path("model.safetensors"), 0, length, dtype, shape)
    return found


def test_parts_of_any_heights_make_up_a_whole():
    check_pieces("conv", SHAPE, parts((3, 1, 4), (3, 1, 4), (4, 1, 4)))


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        (parts((3, 1, 4), (3, 1, 4)), r"the parts of 'conv' do not make up \[10, 1, 4\]"),
        (parts((5, 1, 4), (5, 1, 3)), "use the config that belongs to the weights"),
        ({**parts((5, 1, 4)), "other": parts((5, 1, 4), dtype="F16")["part0"]}, "bytes for its shape"),
    ],
)
def test_others_do_not(pieces, why, tmp_path, monkeypatch):
    monkeypatch.setattr("mebp.exporter.weights.is_of_mlx", lambda file: False)
    with pytest.raises(Error, match=why):
        check_pieces("conv", SHAPE, pieces)
