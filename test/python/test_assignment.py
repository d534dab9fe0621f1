# SPDX-License-Identifier: Apache-2.0
"""mebp.exporter.assignment: tensors that are filled part by part."""

import pytest
import torch

from mebp.exporter.assignment import join_assigned_parts


class _Filled(torch.nn.Module):
    """Assigns x [2, 3, 4] to parts of an empty tensor."""

    def __init__(self, *parts: slice, width: int = 8) -> None:
        super().__init__()
        self.parts, self.width = parts, width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.new_empty(2, 3, self.width)
        for factor, part in enumerate(self.parts, 1):
            y[..., part] = factor * x
        return y + 1


def _targets(exported: torch.export.ExportedProgram) -> list[str]:
    return [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("parts", [(slice(4), slice(4, None)), (slice(4, 8), slice(0, 4))])
def test_parts_that_fill_a_tensor_are_joined(parts):
    x = torch.randn(2, 3, 4)
    joined = join_assigned_parts(torch.export.export(_Filled(*parts), (x,), strict=False))
    assert not [target for target in _targets(joined) if "empty" in target or "scatter" in target or "copy" in target]
    assert torch.equal(joined.module()(x), _Filled(*parts)(x))


@pytest.mark.parametrize(
    ("parts", "width"),
    [((slice(4),), 8), ((slice(4), slice(2, 6)), 6), ((slice(0, 8, 2), slice(1, 8, 2)), 8)],
    ids=["a part is left out", "parts overlap", "parts alternate"],
)
def test_others_stay(parts, width):
    exported = torch.export.export(_Filled(*parts, width=width), (torch.randn(2, 3, 4),), strict=False)
    assert "aten.slice_scatter.default" in _targets(join_assigned_parts(exported))


def test_a_program_without_them_is_itself():
    exported = torch.export.export(torch.nn.Linear(2, 3), (torch.randn(1, 2),), strict=False)
    assert join_assigned_parts(exported) is exported
