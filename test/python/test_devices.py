# SPDX-License-Identifier: Apache-2.0
"""What devices are there, and how far apart they may be."""

import json
import math

import numpy as np
import pytest

import mebp
from mebp.cli import main
from mebp.parity.comparison import DeviceStep, Parity


def test_the_cpu_is_there_and_every_other_says_why_it_is_not():
    found = mebp.devices()
    assert [device.name for device in found] == ["cpu", "mlx", "mlx-cpu"]
    assert found[0].is_there and "kernels" in found[0].description and found[0].memory_bytes > 2**20
    for device in found:
        assert len(device.description.splitlines()) == 1
        assert device.is_there or "install" in device.description, device


def test_the_command_lists_them(capsys):
    assert main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("cpu      ") and any(line.startswith("mlx-cpu  ") for line in lines)
    assert main(["devices", "--json"]) == 0
    assert [device["name"] for device in json.loads(capsys.readouterr().out)] == ["cpu", "mlx", "mlx-cpu"]


def parity(precision: str, *steps: tuple[float, list[float]]) -> Parity:
    return Parity(
        precision,
        [
            DeviceStep(f"d{i}", loss, 1.0, 1, "", {str(j): np.array([value]) for j, value in enumerate(values)})
            for i, (loss, values) in enumerate(steps)
        ],
    )


def test_others_are_compared_with_the_first():
    found = parity("f32", (2.0, [1.0, 2.0]), (2.0, [1.0, 2.0]), (3.0, [1.0, 2.5]))
    assert found.errors["d1"].worst == 0 and found.errors["d2"].worst == 0.25 and found.errors["d2"].loss == 0.5
    assert [one.name for one in found.beyond] == ["d2, the loss", "d2, 1"]


@pytest.mark.parametrize(
    "precision, values, loss, agrees",
    [
        ("f32", [1.00001] * 4, 1.0, True),
        ("f32", [1, 1, 1, 1.00003], 1.0, False),
        ("f32", [1] * 4, 1.00003, False),
        ("f32", [1, 1, 1, math.nan], 1.0, False),
        ("bf16", [1.05, 1.05, 1.1, 1.25], 1.005, True),
        ("bf16", [1.05, 1.05, 1.1, 1.35], 1.005, False),
        ("bf16", [1.15] * 4, 1.0, False),
        ("bf16", [1] * 4, 1.01, False),
        ("bf16", [1, 1, 1, math.nan], 1.0, False),
    ],
)
def test_what_is_too_far_apart(precision, values, loss, agrees):
    assert parity(precision, (1.0, [1.0] * 4), (loss, values)).agrees is agrees
