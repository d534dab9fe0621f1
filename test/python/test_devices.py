# SPDX-License-Identifier: Apache-2.0
"""What devices are there, and how far apart they may be."""

import json
import math

import numpy as np
import pytest

import mebp
from mebp.cli import main
from mebp.device import Device, DeviceTest
from mebp.device_parity.comparison import DeviceStep, Parity


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


def test_a_test_compares_every_kernel(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path))
    assert mebp.devices()[0].tested == ""
    test = mebp.test_device("cpu")
    assert test.sound and not test.avoided and not test.missing and test.calls > 200
    assert test.kernels["linear"]["f32"] < 2e-5 < test.kernels["linear"]["bf16"] < 1 / 256
    assert mebp.devices()[0].tested == f"{test.calls} calls agree with the CPU's"
    assert main(["devices"]) == 0
    assert f"         {test.calls} calls agree with the CPU's" in capsys.readouterr().out.splitlines()


def test_the_command_tests_what_is_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path))
    assert main(["devices", "--test"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("cpu: ") and "calls in" in line for line in lines)
    assert any(line.split()[:2] == ["linear", "48"] for line in lines)


def test_a_device_that_computes_wrong_is_told(monkeypatch, capsys):
    kernels = {"add": {"calls": 1, "in_bf16": 0, "f32": 1.0, "bf16": 0.0}}
    wrong = DeviceTest(kernels, [], ["add(1x1 f32) is off"], [], 1.0)
    monkeypatch.setattr(mebp, "devices", lambda: [Device("cpu", True, "a CPU", 0, "refused")])
    monkeypatch.setattr(mebp, "test_device", lambda name: wrong)
    assert main(["devices", "--test"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "wrong: add(1x1 f32) is off"
    assert main(["devices", "--test", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["test"]["wrong"] == ["add(1x1 f32) is off"]


def test_what_is_not_there_cannot_be_tested():
    with pytest.raises(mebp.Error, match="^there is no device 'gpu'; choose cpu, mlx or mlx-cpu"):
        mebp.test_device("gpu")


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


def test_small_gradients_are_judged_by_their_share():
    """In f32 each is exact; in bf16 one that is next to nothing beside the others is their rounding."""
    exact, small, large = [1.0] * 4 + [1e-4], [1.05] * 4 + [3e-4], [1.05] * 3 + [3.0, 1e-4]
    assert parity("bf16", (1.0, exact), (1.0, small)).agrees
    assert not parity("f32", (1.0, exact), (1.0, [1.0] * 4 + [3e-4])).agrees
    assert [one.name for one in parity("bf16", (1.0, exact), (1.0, large)).beyond] == [
        "d1, the gradients' 95th percentile",
        "d1, the worst gradient",
    ]
