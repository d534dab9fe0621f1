# SPDX-License-Identifier: Apache-2.0
"""`mebp train --push-to-hub`: what reaches a hub, which a server on this machine plays, and what is left else."""

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

import mebp
from mebp.cli import main
from mebp.training.pushing import UploadError
from support.commands import refusal_in_process

ID = "me/tiny"


@pytest.fixture
def hub(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # the server speaks Git's protocol alone
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setenv("HF_TOKEN", hub.uploads.token)
    return hub


def train(bundle: Path, data: Path, folder: Path, *more: object, id: str = ID, steps: int = 2) -> int:
    given = ["train", bundle, "--data", data, "--steps", steps, "--adapter-out", folder, "--push-to-hub", id, *more]
    return main([*map(str, given)])


def files_in(folder: Path, *but: str) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file() and file.name not in but}


def test_the_adapter_goes_there_and_nothing_that_lies_beside_it(hub, bundle, data, tmp_path, capsys):
    out = tmp_path / "adapter"
    assert train(bundle, data, out, "--state", out / "state", "--log", out / "log.jsonl") == 0
    (out / "notes.txt").write_text("mine")
    found, said = hub.uploads.repositories[ID], capsys.readouterr().out
    assert found == files_in(out, "notes.txt", "log.jsonl", "training.csv", "training.png", ".lock")
    assert {"adapter_model.safetensors", "adapter_config.json", "README.md", "mebp.json"} <= found.keys()
    made = hub.uploads.made[ID]
    assert made.get("private") is True or made.get("visibility") == "private"  # by older clients, and by newer ones
    assert said.splitlines()[-2:] == [f"uploading {out} to {ID}", f"uploaded: {hub.endpoint}/{ID}"]
    assert "push-to-hub" not in found["README.md"].decode(), "whoever trains the same again uploads nothing"


def test_a_repository_that_is_there_takes_the_next_one(hub, bundle, data, tmp_path):
    assert train(bundle, data, tmp_path / "first") == 0
    before = dict(hub.uploads.repositories[ID])
    assert train(bundle, data, tmp_path / "second", steps=3) == 0
    now = hub.uploads.repositories[ID]
    assert now["adapter_model.safetensors"] != before["adapter_model.safetensors"]
    assert now["README.md"] == (tmp_path / "second/README.md").read_bytes()


def test_a_name_alone_is_one_of_the_user_s(hub, bundle, data, tmp_path):
    assert train(bundle, data, tmp_path / "adapter", id="tiny") == 0
    assert [*hub.uploads.repositories] == [ID]


def test_of_all_adapters_the_best_one(hub, bundle, data, tmp_path, monkeypatch):
    losses = iter([1.0, 3.0])
    monkeypatch.setattr("mebp.training.objectives.rows.evaluate", lambda *_, **__: next(losses))
    more = ["--eval", data, "--eval-every", 2, "--keep", "all"]
    assert train(bundle, data, tmp_path / "adapter", *more, steps=4) == 0
    assert hub.uploads.repositories[ID] == files_in(tmp_path / "adapter/step-2", ".lock")


def test_a_run_that_was_stopped_uploads_nothing_and_one_that_goes_on_does(hub, bundle, data, tmp_path, capsys):
    given = {"adapter_out": tmp_path / "adapter", "state": tmp_path / "state", "push_to_hub": ID, "steps": 3}
    with pytest.raises(KeyboardInterrupt):
        mebp.train(bundle, data, **given, callback=lambda record: signal.raise_signal(signal.SIGINT))
    assert f"--push-to-hub {ID}: nothing was uploaded, since the run was stopped\n" in capsys.readouterr().out
    assert not hub.uploads.repositories and (tmp_path / "adapter/README.md").exists()
    for _ in range(2):  # one that goes on, and one that had finished
        hub.uploads.repositories.clear()
        mebp.train(bundle, data, **given, resume=True, progress=False)
        assert hub.uploads.repositories[ID] == files_in(tmp_path / "adapter", "training.csv", "training.png", ".lock")
    assert capsys.readouterr().out == ""


class TestRefusals:
    """Before the first step: nothing is asked of the hub, and nothing is written."""

    @pytest.fixture(autouse=True)
    def _given(self, hub, bundle, data, tmp_path, capsys):
        self.hub, self.bundle, self.data, self.out, self.capsys = hub, bundle, data, tmp_path / "adapter", capsys

    def refused(self, *more: object) -> str:
        told = refusal_in_process(self.capsys, "train", self.bundle, "--data", self.data, "--steps", 1, *more)
        assert not self.hub.asked and not self.hub.uploads.made and not self.out.exists()
        return told.removeprefix("mebp: ").rstrip()

    @pytest.mark.parametrize("id", ["", "a/b/c", "me/two words", "me/..", "me/tiny@main", "https://hf.co/me/tiny"])
    def test_what_is_no_name(self, id):
        assert self.refused("--adapter-out", self.out, "--push-to-hub", id) == (
            f"--push-to-hub {id}: is not a name on the hub; give OWNER/NAME, of letters, digits, '-', '_' and '.'"
        )

    def test_no_token(self, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", "")
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(self.out / "no-token"))
        assert self.refused("--adapter-out", self.out, "--push-to-hub", ID) == (
            f"--push-to-hub {ID}: there is no token for the hub; run hf auth login, or set HF_TOKEN"
        )

    def test_no_hub(self, monkeypatch):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert self.refused("--adapter-out", self.out, "--push-to-hub", ID) == (
            f"--push-to-hub {ID}: HF_HUB_OFFLINE keeps the hub away; unset it, or leave the option out"
        )

    def test_nothing_that_is_kept(self):
        assert self.refused("--push-to-hub", ID) == (
            "--push-to-hub needs --adapter-out DIR, where the adapter that it uploads is kept"
        )


class TestAHubThatFails:
    """The run has done all else: its adapter is there, and the command that the line has uploads it."""

    @pytest.mark.parametrize("path", ["/api/repos/create", f"/api/models/{ID}/commit/main"])
    def test_status_1_and_a_command_for_later(self, hub, bundle, data, tmp_path, capsys, path):
        out = tmp_path / "the adapter"
        hub.uploads.failing = lambda asked: 403 if asked == path else None
        assert train(bundle, data, out) == 1
        (line,) = capsys.readouterr().err.splitlines()
        before, _, rest = line.partition(f"; the adapter is in {out}, and ")
        assert before.startswith(f"mebp: --push-to-hub {ID}: could not upload (") and "403" in before
        command = rest.removesuffix(" uploads it later")
        assert shlex.split(command) == ["hf", "upload", ID, str(out), "--private"]
        assert json.loads((out / "adapter_config.json").read_text())["peft_type"] == "LORA"

        hub.uploads.failing = lambda asked: None
        hf = Path(sys.executable).with_name("hf")
        subprocess.run([hf, *shlex.split(command)[1:]], check=True, capture_output=True, timeout=120)
        found = hub.uploads.repositories[ID]
        assert found["adapter_model.safetensors"] == (out / "adapter_model.safetensors").read_bytes()

    def test_a_token_that_the_hub_does_not_take(self, hub, bundle, data, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("HF_TOKEN", "hf_other")
        assert train(bundle, data, tmp_path / "adapter") == 1
        assert "could not upload (" in (line := capsys.readouterr().err) and "401" in line and "hf_other" not in line

    def test_nobody_answers(self, hub, bundle, data, tmp_path, monkeypatch):
        monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
        with pytest.raises(UploadError, match=f"^--push-to-hub {ID}: could not upload .*the adapter is in "):
            mebp.train(bundle, data, steps=1, adapter_out=tmp_path / "adapter", push_to_hub=ID, progress=False)
        assert (tmp_path / "adapter/adapter_model.safetensors").exists()
