# SPDX-License-Identifier: Apache-2.0
"""python -m mebp.debugging: what two runs differ in."""

import subprocess
import sys

import numpy as np
import pytest

import mebp
from mebp.debugging import main
from support.commands import TIMEOUT


@pytest.fixture(scope="module")
def fastest(bundle, tmp_path_factory):
    path = tmp_path_factory.mktemp("debugging") / "fastest.npz"
    assert main(["gradients", str(bundle), str(path)]) == 0
    return path


def differences(capsys, first, second) -> dict[str, float]:
    assert main(["compare", str(first), str(second)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{second} against {first}"
    found = [line.split() for line in lines[2:]]
    return {name: float(error) for name, error in found}


def test_kernels_differ_by_rounding(bundle, fastest, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MEBP_KERNELS", "reference")
    command = [sys.executable, "-m", "mebp.debugging", "gradients", str(bundle), str(tmp_path / "reference.npz")]
    subprocess.run(command, check=True, timeout=TIMEOUT)
    found = differences(capsys, tmp_path / "reference.npz", fastest)
    assert "loss" in found and sum("lora_A" in name for name in found) == sum("lora_B" in name for name in found) > 0
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert 0 < max(found.values()) < 1e-4
    assert set(differences(capsys, fastest, fastest).values()) == {0.0}


def test_the_place_is_an_adapter_s(bundle, fastest, tmp_path, capsys):
    mebp.Session(bundle).save_adapter(tmp_path / "adapter")
    assert main(["gradients", str(bundle), str(tmp_path / "at.npz"), "--adapter", str(tmp_path / "adapter")]) == 0
    gradients = np.load(tmp_path / "at.npz")
    assert all(gradients[name].any() == ("lora_A" not in name) for name in gradients.files)  # B is zero there
    assert max(differences(capsys, fastest, tmp_path / "at.npz").values()) > 0.1


def test_other_tensors_are_refused(fastest, tmp_path, capsys):
    np.savez(tmp_path / "other.npz", loss=np.zeros(2))
    assert main(["compare", str(fastest), str(tmp_path / "other.npz")]) == 2
    assert "compare runs of one model" in capsys.readouterr().err
    assert main(["compare", str(fastest), str(tmp_path / "none.npz")]) == 2
    reason = "cannot be read (No such file or directory); write it with gradients"
    assert capsys.readouterr().err == f"debugging: {tmp_path / 'none.npz'}: {reason}\n"
    (tmp_path / "none.npz").touch()
    assert main(["compare", str(fastest), str(tmp_path / "none.npz")]) == 2
    reason = "cannot be read (No data left in file); write it with gradients"
    assert capsys.readouterr().err == f"debugging: {tmp_path / 'none.npz'}: {reason}\n"


def test_gradients_that_cannot_be_written(bundle, tmp_path, capsys):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "ours.npz"
    assert main(["gradients", str(bundle), str(path)]) == 2
    assert capsys.readouterr().err == f"debugging: {path}: cannot be written (File exists); choose another\n"
