# SPDX-License-Identifier: Apache-2.0
"""Options of mebp train that were called otherwise once, or that mebpc has."""

from pathlib import Path

import pytest

from mebp.cli.main import main
from mebp.errors import Error
from mebp.training.call import converted
from mebp.training.request import Request

GIVEN = {"bundle": "model", "data": ["data.txt"]}


def request(**options: object) -> Request:
    return Request.of(converted({**GIVEN, **options}))


def test_spill_says_what_may_be_written_and_spill_dir_where(tmp_path):
    for what in ("none", "checkpoints", "all"):
        given = request(spill=what)
        assert (given.compiling.spill, given.training.spill_dir) == (what, None)
    both = request(spill="all", spill_dir=tmp_path)
    assert (both.compiling.spill, both.training.spill_dir) == ("all", tmp_path)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_of_spill_is_spill_dir(tmp_path, monkeypatch, kind):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    for folder in (str(tmp_path), "here", "not/there"):
        given = request(spill=kind(folder))
        assert (given.compiling.spill, given.training.spill_dir) == (None, Path(folder))
    (tmp_path / "all").mkdir()
    assert request(spill="all").training.spill_dir is None and request(spill="./all").training.spill_dir == Path("all")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"spill": "al"}, "--spill al: choose none, checkpoints or all; give a folder by --spill-dir"),
        ({"spill": "/a", "spill_dir": "b"}, "--spill /a and --spill-dir b are both folders; leave one of them out"),
        (
            {"spill": "none", "spill_dir": "b"},
            "--spill none writes nothing, and --spill-dir b says where; leave one of them out",
        ),
        (
            {"bundle": "a.mebp", "spill": "all"},
            "--spill is for a model, and a.mebp is compiled already; give the model, or compile it again with mebpc "
            "--spill",
        ),
        (
            {"frontier": True},
            "--frontier prints and trains nothing; run mebp export MODEL -o model/model.onnx, then mebpc "
            "model/model.onnx --frontier",
        ),
    ],
)
def test_refusals(options, line):
    with pytest.raises(Error) as caught:
        request(**options)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (["--max-seq-for", "1GiB"], "--max-seq-for 1GiB"),
        (["--explain-peak"], "--plan-only --explain-peak"),
        (["--emit=nn"], "--emit exec"),
    ],
)
def test_what_mebpc_prints_is_answered_with_its_command(capsys, given, asked):
    assert main(["train", "my model", "--data", "x", *given]) == 2
    assert capsys.readouterr().err == (
        f"mebp: {given[0].split('=')[0]} prints and trains nothing; run mebp export MODEL -o model/model.onnx, "
        f"then mebpc model/model.onnx {asked}\n"
    )


@pytest.mark.parametrize("options", [{"interface": "lo"}, {"shard": "weights"}, {"reduce": "ring"}])
def test_what_is_for_several_processes(options):
    with pytest.raises(Error) as caught:
        request(**options).run()
    assert (
        str(caught.value) == f"--{next(iter(options))} is for processes that torchrun or mebp.ray starts; leave it out"
    )
