# SPDX-License-Identifier: Apache-2.0
"""Data sets of the hub; a server on this machine plays it."""

import json
import sys
from pathlib import Path

import pytest

from mebp.data.reading import SampleFiles
from mebp.data.sources import Source, names_of, read_sources
from mebp.errors import Error
from mebp.training.options import TrainingOptions
from mebp.training.request import Request
from support.hub import Hub


def put(hub: Hub, folder: Path, *files: str) -> str:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps({"text": name}) + "\n")
    return hub.commit("owner/name", folder)


def texts(source: Source) -> list[str]:
    return [sample.text for sample in SampleFiles(source)]


FILES = ("README.md", "data/train-0.jsonl", "data/train-1.jsonl", "data/validation-0.jsonl", "data/test.jsonl")


def test_each_file_by_its_name(hub, tmp_path):
    commit = put(hub, tmp_path / "set", *FILES)
    source = Source.of("hub:owner/name")
    assert texts(source) == ["data/train-0.jsonl", "data/train-1.jsonl"]
    assert str(source) == f"hub:owner/name@{commit}" and source.hub.note == f"hub:owner/name: commit {commit}"
    assert texts(Source.of("hub:owner/name", use="eval")) == ["data/validation-0.jsonl"]
    assert texts(Source.of(Path("hub:owner/name/data/test.jsonl@main"))) == ["data/test.jsonl"]
    exact = Source.of(f"hub:owner/name@{commit}")
    assert exact.hub.note is None and exact.path == source.path


def test_a_run_takes_each_part(hub, tmp_path):
    commit = put(hub, tmp_path / "set", *FILES)
    (tmp_path / "own.txt").write_text("a")
    options = Request.of(
        {"bundle": Path("a.mebp"), "data": ["hub:owner/name:0.25", str(tmp_path / "own.txt")]}
    ).training
    assert [str(source) for source in options.data] == [f"hub:owner/name@{commit}:0.25", str(tmp_path / "own.txt")]
    assert {name: texts(source) for name, source in options.measured.items()} == {
        "eval": ["data/validation-0.jsonl"],
        "test": ["data/test.jsonl"],
    }
    assert names_of(options.data) == ["name", "own.txt"]
    assert hub.resolved() == ["main"]
    assert texts(TrainingOptions("a.mebp", "b", eval="hub:owner/name").eval) == ["data/validation-0.jsonl"]


def test_a_run_that_goes_on_takes_the_commit_that_it_began_with(hub, tmp_path, monkeypatch):
    first = put(hub, tmp_path / "set", *FILES)
    put(hub, tmp_path / "later", *FILES)
    kept = {"model": {"hub:owner/name:0.5": f"hub:owner/name@{first}:0.5", "asked": "x", "exact": "x"}}
    monkeypatch.setattr("mebp.training.request.saved_with", lambda folder: kept)
    (tmp_path / "own.txt").write_text("a")
    given = {
        "bundle": Path("a.mebp"),
        "data": ["hub:owner/name:0.5", str(tmp_path / "own.txt")],
        "state": tmp_path / "state",
    }
    request = Request.of({**given, "resume": True})
    assert str(request.training.data[0]) == f"hub:owner/name@{first}:0.5"
    assert request._hub_data()["hub:owner/name:0.5"] == f"hub:owner/name@{first}:0.5"
    assert str(Request.of(given).training.data[0]) != f"hub:owner/name@{first}:0.5"


def test_folders_and_files_in_it(hub, tmp_path):
    put(hub, tmp_path / "set", "main/train.jsonl", "main/test.jsonl", "other/train.jsonl")
    assert texts(Source.of("hub:owner/name/main")) == ["main/train.jsonl"]
    with pytest.raises(Error) as caught:
        Source.of("hub:owner/name")
    assert str(caught.value).startswith("hub:owner/name: has data in several folders, ")
    assert str(caught.value).endswith("; give one, such as hub:owner/name/main")


def test_files_without_a_word_are_to_train_on(hub, tmp_path):
    put(hub, tmp_path / "set", "a.jsonl", "b.jsonl", "dev.jsonl", ".hidden/c.jsonl")
    assert texts(Source.of("hub:owner/name")) == ["a.jsonl", "b.jsonl"]


def test_files_of_several_kinds(hub, tmp_path):
    put(hub, tmp_path / "set", "train.jsonl", "train.csv")
    message = (
        r"^hub:owner/name: has data in several kinds of files, \.csv and \.jsonl; give one, such as "
        r"hub:owner/name/train\.csv$"
    )
    with pytest.raises(Error, match=message):
        Source.of("hub:owner/name")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("hub:name", "hub:name: is no data set of the hub; give hub:OWNER/NAME, or hub:OWNER/NAME@REVISION"),
        ("hub:a/b@", "hub:a/b@: is no data set of the hub; give hub:OWNER/NAME, or hub:OWNER/NAME@REVISION"),
        ("hub:a/b/../c", "hub:a/b/../c: is no data set of the hub; give hub:OWNER/NAME, or hub:OWNER/NAME@REVISION"),
        ("hub:owner/name", "hub:owner/name: has no file of data there; give another one, or a folder or file in it"),
    ],
)
def test_what_is_refused(hub, tmp_path, asked, message):
    put(hub, tmp_path / "set", "README.md")
    with pytest.raises(Error) as caught:
        read_sources(asked)
    assert str(caught.value) == message


def test_what_the_hub_does_not_have(hub):
    with pytest.raises(Error, match=r"^owner/name: the hub did not give it \(.*\); check the name and the network$"):
        Source.of("hub:owner/name")


def test_without_huggingface_hub_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(
        Error, match=r"^hub:a/b needs huggingface_hub \(.*\); install it with: pip install 'mebp\[hub\]'$"
    ):
        Source.of("hub:a/b")


def test_without_the_prefix_a_name_is_a_file(hub):
    assert Source.of("owner/name").path == Path("owner/name") and not hub.asked
