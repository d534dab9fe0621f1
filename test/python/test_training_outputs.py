# SPDX-License-Identifier: Apache-2.0
"""Outputs that could not be written are refused before the first step."""

from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.training.options import TrainingOptions
from mebp.training.outputs import check_outputs


def check(**given: Path) -> None:
    check_outputs(TrainingOptions(Path("a.mebp"), Path("data.txt"), **given))


def refusal(**given: Path) -> str:
    with pytest.raises(Error) as caught:
        check(**given)
    return str(caught.value)


def test_folders_are_made(tmp_path):
    check(plot=tmp_path / "pictures" / "run.png", adapter_out=tmp_path / "adapters" / "one")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["adapters", "pictures"]
    (tmp_path / "adapters" / "one").mkdir()
    check(adapter_out=tmp_path / "adapters" / "one")  # an older adapter may be there


def test_refusals(tmp_path):
    (tmp_path / "file").touch()
    taken, beneath = tmp_path / "file", tmp_path / "file" / "adapter"
    assert refusal(adapter_out=taken) == f"--adapter-out {taken}: something else is there; choose another"
    reason = f"{taken} cannot be made (File exists); choose another"
    assert refusal(adapter_out=beneath) == f"--adapter-out {beneath}: {reason}"
    assert refusal(plot=beneath / "run.png").startswith(f"--plot {beneath / 'run.png'}: {beneath} cannot be made (")
    (tmp_path / "folder.png").mkdir()
    folder = tmp_path / "folder.png"
    assert refusal(plot=folder) == f"--plot {folder}: something else is there; choose another"
    picture = tmp_path / "run.what"
    assert refusal(plot=picture) == f"--plot {picture}: is no kind of picture; let it end in .png, .svg, .pdf, .jpg"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    path = tmp_path / "run.png"
    assert refusal(plot=path) == f"--plot {path}: {tmp_path} cannot be written; choose another"
