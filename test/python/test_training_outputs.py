# SPDX-License-Identifier: Apache-2.0
"""Outputs that could not be written are refused before the first step."""

import os
from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.outputs import PICTURE, check_output
from mebp.training.log import Record, write_table
from mebp.training.options import TrainingOptions
from mebp.training.outputs import check_outputs
from mebp.training.plot import plot_run

RECORD = Record(1, loss=3.0, grad_norm=1.0, lr=1e-3, tokens=31, seconds=0.1, peak_bytes=1000)


def check(bundle: Path = Path("a.mebp"), data: Path = Path("data.txt"), **given: object) -> None:
    check_outputs(TrainingOptions(bundle, data, **given))


def refusal(**given: object) -> str:
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
    assert refusal(adapter_out=taken) == f"--adapter-out {taken}: is no folder; choose another"
    reason = f"{taken} cannot be made (File exists); choose another"
    assert refusal(adapter_out=beneath) == f"--adapter-out {beneath}: {reason}"
    assert refusal(plot=beneath / "run.png").startswith(f"--plot {beneath / 'run.png'}: {beneath} cannot be made (")
    (tmp_path / "folder.png").mkdir()
    folder = tmp_path / "folder.png"
    assert refusal(plot=folder) == f"--plot {folder}: something else is there; choose another"
    picture = tmp_path / "run.what"
    assert refusal(plot=picture) == f"--plot {picture}: is not a picture format; end the name in .png, .svg, .pdf, .jpg"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    path = tmp_path / "run.png"
    assert refusal(plot=path) == f"--plot {path}: {tmp_path} cannot be written; choose another"


def test_an_input_is_never_an_output(tmp_path):
    data, link = tmp_path / "data.jsonl", tmp_path / "run.jsonl"
    data.write_text("")
    link.hardlink_to(data)
    for given in ({"data": data}, {"eval": data}, {"adapter": data}):
        name = f"--{next(iter(given))}"
        for overwrite in (False, True):
            line = refusal(log=link, overwrite=overwrite, **given)
            assert line == f"--log {link}: is also {name}, which would be lost; choose another"
    for option in ("adapter_out", "state"):
        line = refusal(**{option: tmp_path}, bundle=tmp_path / "." / "")
        name = option.replace("_", "-")
        assert line == f"--{name} {tmp_path}: is also the bundle, which would be lost; choose another"
    assert refusal(adapter_out=tmp_path / "a", adapter=tmp_path / "a").endswith("choose another")


def test_outputs_differ(tmp_path):
    assert refusal(log=tmp_path / "x", profile=tmp_path / "x") == (
        f"--log and --profile are both {tmp_path / 'x'}; give each its own"
    )


@pytest.mark.parametrize(
    ("option", "kind"),
    [("log", "a log of mebp train"), ("plot", "a loss curve of mebp train"), ("profile", "a profile of mebp")],
)
@pytest.mark.parametrize(
    "content",
    [b"text\n", b'{"text": "a"}\n', b"{", b"\x89PNG\r\n", b"[1]\n", b"\xff\xfe", b'{"step": 1, "loss": 2.0}\n'],
)
def test_what_is_not_ours_stays(tmp_path, option, kind, content):
    path = tmp_path / "file.png"
    path.write_bytes(content)
    for given in ({}, {"overwrite": True}, {"resume": True, "state": tmp_path / "state"}):
        assert refusal(**{option: path}, **given) == (f"--{option} {path}: exists and is not {kind}; choose another")
    assert path.read_bytes() == content


def test_what_another_run_left_is_replaced_when_asked(tmp_path):
    log, plot, profile = tmp_path / "run.jsonl", tmp_path / "run.png", tmp_path / "trace.json"
    log.write_text('{"step": 1, "eval_loss": 2.0}\n')
    plot_run([RECORD], [], plot, title="")
    profile.write_text('[\n{"name": "add", "cat": "kernel", "args": {"source": "layer"}')
    for option, path in (("log", log), ("plot", plot), ("profile", profile)):
        assert "; add --overwrite to replace it or choose another" in refusal(**{option: path})
        check(**{option: path}, overwrite=True)
        check(**{option: path}, resume=True, state=tmp_path / "state")
    log.write_text("")  # nothing to lose
    check(log=log)
    check(log=Path("/dev/null"))
    os.mkfifo(tmp_path / "pipe")  # which nobody reads
    check(log=tmp_path / "pipe")
    assert refusal(plot=tmp_path / "pipe") == f"--plot {tmp_path / 'pipe'}: something else is there; choose another"


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "jpg"])
def test_pictures_of_every_kind_are_recognised(tmp_path, ending):
    path = tmp_path / f"run.{ending}"
    plot_run([RECORD], [], path, title="")
    assert check_output("--plot", path, PICTURE, {})


def test_an_adapter_is_replaced_when_asked(tmp_path):
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    assert refusal(adapter_out=tmp_path) == (
        f"--adapter-out {tmp_path}: exists already (an adapter); add --overwrite to replace it or choose another"
    )
    check(adapter_out=tmp_path, overwrite=True)
    (tmp_path / "adapter_config.json").write_text("{}")
    assert refusal(adapter_out=tmp_path, overwrite=True) == (
        f"--adapter-out {tmp_path}: exists and is not an adapter; choose another"
    )


@pytest.mark.parametrize(
    ("name", "kind"), [("training.csv", "a log of mebp train"), ("training.png", "a loss curve of mebp train")]
)
def test_what_comes_beside_an_adapter_replaces_nothing_else(tmp_path, name, kind):
    (tmp_path / name).write_text("mine\n")
    for given in ({}, {"overwrite": True}, {"resume": True, "state": tmp_path / "state"}):
        line = refusal(adapter_out=tmp_path, **given)
        assert line == f"--adapter-out {tmp_path / name}: exists and is not {kind}; choose another"
    write_table([RECORD], tmp_path / "training.csv")
    plot_run([RECORD], [], tmp_path / "training.png", title="")
    check(adapter_out=tmp_path)


def test_a_state_is_of_a_run(tmp_path):
    (tmp_path / "file").touch()
    assert refusal(state=tmp_path / "file") == f"--state {tmp_path / 'file'}: is no folder; choose another"
    (tmp_path / "state.bin").write_bytes(b"not a state")
    assert refusal(state=tmp_path) == f"{tmp_path / 'state.bin'}: is not a saved state; choose another folder"


def test_one_cannot_both_go_on_and_start_anew(tmp_path):
    assert refusal(state=tmp_path, resume=True, overwrite=True) == (
        "--resume and --overwrite cannot be used together; give one"
    )
