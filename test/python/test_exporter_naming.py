# SPDX-License-Identifier: Apache-2.0
"""What models are called, and what others may read of it."""

from pathlib import Path

import pytest

from mebp.errors import Error
from mebp.exporter import packaged
from mebp.exporter.naming import HubName, hub_name, shared_name, shared_path, title, without_homes

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "somebody"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.mark.parametrize(
    ("model", "id", "revision"),
    [
        ("owner/name", "owner/name", None),
        ("gpt2", "gpt2", None),
        ("owner/name@main", "owner/name", "main"),
        ("owner/na.me-1@refs/pr/3", "owner/na.me-1", "refs/pr/3"),
        (f"owner/name@{COMMIT}", "owner/name", COMMIT),
    ],
)
def test_a_hub_id_may_have_a_revision(model, id, revision):
    assert hub_name(model) == HubName(id, revision) and str(hub_name(model)) == model
    assert hub_name(model).is_exact == (revision == COMMIT)


@pytest.mark.parametrize("revision", ["", "../main", "a/../../b", "a b", "-x", "@", "\n", "a@{1}"])
def test_what_is_no_revision_is_refused(revision):
    with pytest.raises(Error) as raised:
        hub_name(f"owner/name@{revision}")
    assert str(raised.value).endswith(
        ("give a branch, a tag or a commit after the @", "give a model folder or a hub id")
    ) and str(raised.value).startswith("owner/name@")


def test_paths_refuse_a_revision(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("model", "owner/name"):
        Path(folder).mkdir(parents=True)
    for path in ("model", "./model", f"{tmp_path}/model", "owner/name"):
        with pytest.raises(
            Error, match=f"^{path}@main: {path} is a path, and only hub ids have revisions; leave out @main"
        ):
            hub_name(f"{path}@main")
    with pytest.raises(
        Error, match="^./none@main: no such folder, and only hub ids have revisions; give a model folder"
    ):
        hub_name("./none@main")
    with pytest.raises(Error, match="^packaged:smollm2@main: a packaged model has no revisions; leave out @main$"):
        packaged.unpack("packaged:smollm2@main")


def test_others_do_not_read_of_a_home_folder(home, tmp_path):
    for path in (home / "models" / "tiny", home / "tiny.gguf"):
        assert shared_path(path) == f"./{path.name}" == shared_name(str(path)) == shared_name(f"~/x/{path.name}")
    for path in ("/root/tiny", "/home/ann/models/tiny", "/Users/ann/tiny"):
        assert shared_name(path) == "./tiny"
    for path in (tmp_path / "tiny", tmp_path / "home" / "ann", tmp_path / "somebody-else"):
        assert shared_path(path) == str(path) == shared_name(str(path))  # by which PEFT opens it
    assert shared_name("owner/name") == "owner/name"


def test_a_link_out_of_a_home_folder_says_where_it_leads(home, tmp_path):
    (home / "link").symlink_to(tmp_path / "tiny")
    assert shared_path(home / "link") == str(tmp_path / "tiny")
    (tmp_path / "link").symlink_to(home / "tiny")
    assert shared_path(tmp_path / "link") == "./link"


def test_what_is_in_a_cache_is_called_what_it_came_from(home, monkeypatch):
    hub = home / ".cache" / "huggingface" / "hub"
    assert shared_path(hub / "models--owner--a-name" / "snapshots" / COMMIT) == f"owner/a-name@{COMMIT}"
    assert shared_path(hub / "models--gpt2" / "snapshots" / COMMIT) == f"gpt2@{COMMIT}"
    monkeypatch.delenv("MEBP_CACHE", raising=False)
    assert shared_path(home / ".cache" / "mebp" / "smollm2") == "packaged:smollm2"
    monkeypatch.setenv("MEBP_CACHE", str(home / "other"))
    assert shared_path(home / "other" / "smollm2") == "packaged:smollm2"
    assert shared_path(home / "other" / "another") == "./another"


def test_home_folders_become_a_tilde(home):
    assert without_homes(f"python {home}/r.py:{home} '{home}'") == "python ~/r.py:~ '~'"
    assert without_homes("/home/ann/x /Users/ann /root/y") == "~/x ~ ~/y"
    for kept in (f"{home}-else/x", "/data/home/ann/x", "/rooted", "home/ann/x", "https://a.b/home/ann"):
        assert without_homes(kept) == kept


def test_a_home_that_is_everything_hides_nothing(monkeypatch):
    monkeypatch.setenv("HOME", "/")
    assert without_homes("/data/x and/or y") == "/data/x and/or y"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"owner/name@{COMMIT}", "owner/name"),
        ("packaged:smollm2", "smollm2"),
        ("./tiny", "tiny"),
        ("/models/a@b", "a@b"),
        ("</b><i>", "</b><i>"),
    ],
)
def test_titles_are_short(name, expected):
    assert title(name) == expected
