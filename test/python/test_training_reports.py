# SPDX-License-Identifier: Apache-2.0
"""What a run reports to the programs that draw it; wandb and trackio are modules that write down what they are told."""

import sys
from types import SimpleNamespace

import pytest

import mebp
from mebp.errors import Error
from mebp.training.log import Evaluation, Record, Test
from mebp.training.reports import Reports, check_installed, opened_reports, programs
from support.judges import judge

RECORD = Record(3, loss=3.0, grad_norm=1.5, lr=1e-3, tokens=31, seconds=0.1, peak_bytes=1000)
ENTRIES = [RECORD, Evaluation(3, 2.5), Test(2, 2.25)]
CONFIG = {"--lr": 1e-3}
TRAIN = {"train/loss": 3.0, "train/grad_norm": 1.5, "train/learning_rate": 1e-3, "train/tokens": 31,
         "train/seconds": 0.1, "train/peak_bytes": 1000}  # fmt: skip


class Fake(SimpleNamespace):
    """The module `package`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, package: str, failing: str = "") -> None:
        self.calls: list[tuple] = []
        self._failing = failing
        self.__spec__ = SimpleNamespace()
        monkeypatch.setitem(sys.modules, package, self)

    def _call(self, name: str, *given: object) -> None:
        if name == self._failing:
            raise ConnectionError("nobody answers\nand a page of advice")
        self.calls.append((name, *given))

    def init(self, **settings: object) -> SimpleNamespace:
        self._call("init", settings)
        return SimpleNamespace(id="k1", name="calm-lamp-7")

    def log(self, figures: dict, step: int | None = None) -> None:
        self._call("log", step, figures)

    def finish(self) -> None:
        self._call("finish")


def report(names: str, keys: dict | None = None, first: int = 0) -> tuple[Reports, list[str]]:
    said: list[str] = []
    with opened_reports(names, "adapter", CONFIG, keys or {}, first, said.append) as reports:
        for entry in ENTRIES:
            reports.write(entry)
    return reports, said


def test_wandb(monkeypatch):
    fake = Fake(monkeypatch, "wandb")
    reports, said = report("wandb")
    assert fake.calls == [
        ("init", {"project": "mebp", "config": CONFIG, "name": "adapter"}),
        ("log", 3, TRAIN),
        ("log", 3, {"eval/loss": 2.5}),
        ("log", None, {"test/loss": 2.25}),
        ("finish",),
    ]
    assert said == ["reports to wandb, run calm-lamp-7"] and reports.keys == {"wandb": "k1"}
    fake.calls.clear()
    report("wandb", reports.keys)
    assert fake.calls[0] == ("init", {"project": "mebp", "config": CONFIG, "id": "k1", "resume": "allow"})


def test_trackio(monkeypatch):
    fake = Fake(monkeypatch, "trackio")
    monkeypatch.setenv("TRACKIO_PROJECT", "mine")
    reports, _ = report("trackio")
    name = fake.calls[0][1].pop("name")
    assert name.startswith("adapter-") and reports.keys == {"trackio": name}
    assert fake.calls[0] == ("init", {"project": "mine", "config": CONFIG, "resume": "allow"})
    assert fake.calls[1:] == [
        ("log", 3, TRAIN), ("log", 3, {"eval/loss": 2.5}), ("log", None, {"test/loss": 2.25}), ("finish",)
    ]  # fmt: skip
    fake.calls.clear()
    report("trackio", reports.keys)
    assert fake.calls[0][1]["name"] == name


def test_several(monkeypatch):
    fakes = [Fake(monkeypatch, name) for name in ("wandb", "trackio")]
    reports, said = report("trackio, wandb,wandb")
    assert [len(fake.calls) for fake in fakes] == [5, 5] and list(reports.keys) == ["trackio", "wandb"]
    assert programs("wandb") == ["wandb"] and len(said) == 2


def test_one_that_cannot_be_started_is_refused(monkeypatch):
    other, failing = Fake(monkeypatch, "trackio"), Fake(monkeypatch, "wandb", failing="init")
    with pytest.raises(Error) as caught:
        report("trackio,wandb")
    assert str(caught.value) == ("--report-to wandb: cannot be started (nobody answers); mend that or leave it out")
    assert [call[0] for call in other.calls] == ["init", "finish"] and not failing.calls


def test_one_that_fails_does_not_end_the_run(monkeypatch):
    failing, other = Fake(monkeypatch, "wandb", failing="log"), Fake(monkeypatch, "trackio")
    _, said = report("wandb,trackio")
    assert said[2:] == ["wandb: nobody answers; the run goes on and reports there no more"]
    assert len(other.calls) == 5 and [call[0] for call in failing.calls] == ["init", "finish"]
    Fake(monkeypatch, "wandb", failing="finish")
    _, said = report("wandb")
    assert said[1:] == ["wandb: nobody answers; the last steps may be missing there"]


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "trackio"])
def test_one_that_is_not_installed_is_refused(monkeypatch, tmp_path, name):
    monkeypatch.setattr("mebp.training.reports.find_spec", lambda _: None)
    check_installed(None)
    with pytest.raises(Error) as caught:  # before anything is looked at
        mebp.train(tmp_path / "model", tmp_path / "data.txt", report_to=name, progress=False)
    assert str(caught.value) == f"--report-to {name}: {name} is not installed; install it with: pip install {name}"


def test_tensorboard(tmp_path, monkeypatch):
    judge("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
    reports, said = report("tensorboard")
    folder = tmp_path / "runs"
    assert said == [f"reports to tensorboard --logdir {folder}"]
    assert reports.keys["tensorboard"].startswith(f"{folder / 'adapter'}-")
    report("tensorboard", reports.keys, first=2)  # step 3 again, after a kill
    assert len(list(folder.iterdir())) == 1
    found = EventAccumulator(reports.keys["tensorboard"]).Reload()
    assert set(found.Tags()["scalars"]) == {*TRAIN, "eval/loss", "test/loss"}
    assert [(each.step, each.value) for each in found.Scalars("train/loss")] == [(3, 3.0)]
    assert [(each.step, each.value) for each in found.Scalars("eval/loss")] == [(3, 2.5)]
