# SPDX-License-Identifier: Apache-2.0
"""What is kept in the cache is whole, or not there; two processes make it once."""

import os
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from mebp.cache import Cache
from mebp.errors import Error


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(folder: Path) -> None:
    (folder / "content").write_text("whole")


def test_it_is_made_once(folder):
    said: list[str] = []
    cache = Cache(said.append)
    assert cache.find("kind/one") is None and not folder.exists()
    assert cache.keep("kind/one", write) == (folder / "kind" / "one", False)
    assert cache.keep("kind/one", pytest.fail) == (folder / "kind" / "one", True)
    assert (cache.find("kind/one") / "content").read_text() == "whole"
    assert [entry.name for entry in (folder / "kind").iterdir()] == ["one"] and not said


@pytest.mark.parametrize("raised", [Error("no"), KeyboardInterrupt(), SystemExit(143)])
def test_what_fails_midway_leaves_nothing(folder, raised):
    def fail(folder: Path) -> None:
        write(folder)
        raise raised

    with pytest.raises(type(raised)):
        Cache(pytest.fail).keep("kind/one", fail)
    assert list(folder.rglob("*")) == [folder / "kind"]


def test_another_that_makes_the_same_is_waited_for(folder):
    started, said = threading.Event(), threading.Event()

    def slowly(folder: Path) -> None:
        started.set()
        assert said.wait(60)
        write(folder)

    lines: list[str] = []

    def wait(line: str) -> None:
        lines.append(line)
        said.set()

    first = threading.Thread(target=lambda: Cache(pytest.fail).keep("kind/one", slowly))
    first.start()
    assert started.wait(60)
    assert Cache(wait).keep("kind/one", pytest.fail)[1]
    first.join()
    assert lines == ["another process makes the same; waiting for it"]


def test_if_the_other_fails_it_is_made(folder):
    started, said = threading.Event(), threading.Event()

    def fail(folder: Path) -> None:
        started.set()
        assert said.wait(60)
        raise Error("no")

    def first() -> None:
        with pytest.raises(Error):
            Cache(pytest.fail).keep("kind/one", fail)

    thread = threading.Thread(target=first)
    thread.start()
    assert started.wait(60)
    assert not Cache(lambda _: said.set()).keep("kind/one", write)[1]
    thread.join()
    assert (folder / "kind" / "one" / "content").read_text() == "whole"


def test_a_lock_that_somebody_planted_is_a_line(folder):
    (folder / "kind").mkdir(parents=True)
    lock = folder / "kind" / ".one.lock"
    advice = "remove it, or name another folder with MEBP_CACHE"
    for plant, why in [
        (lambda: lock.symlink_to(folder / "elsewhere"), "Too many levels of symbolic links"),
        (lock.mkdir, "Is a directory"),
    ]:
        plant()
        with pytest.raises(Error) as caught:
            Cache(pytest.fail).keep("kind/one", write)
        assert str(caught.value) == f"{lock}: cannot be locked ({why}); {advice}"
        lock.rmdir() if lock.is_dir() else lock.unlink()
    assert not (folder / "elsewhere").exists()


def test_a_cache_is_its_owner_s(folder):
    """What is trained, and on what, is nobody else's business; and nobody else puts a model there."""
    before = os.umask(0)
    try:
        Cache(pytest.fail).keep("kind/one", write)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["", "kind"])
def test_a_cache_that_everybody_may_write_to_is_refused(folder, kind):
    Cache(pytest.fail).keep("kind/one", write)
    (folder / kind).chmod(0o777)
    for name in ("kind/one", "kind/two"):
        with pytest.raises(Error) as caught:
            Cache(pytest.fail).keep(name, pytest.fail)
        assert str(caught.value) == (
            f"{folder / kind}: everybody may write to this folder of the cache, so what lies there may be anybody's; "
            "run chmod o-w on it, or name another folder with MEBP_CACHE"
        )
    (folder / kind).chmod(0o1777)  # others cannot replace what is there, and can put there what is not
    with pytest.raises(Error, match="everybody may write to this folder of the cache"):
        Cache(pytest.fail).keep("kind/two", pytest.fail)


MAKE = """
import sys; from pathlib import Path; from mebp.cache import Cache
said = []
path, kept = Cache(said.append).keep("kind/one", lambda folder: (folder / "content").write_text("whole"))
print(path, kept, *said, sep="\\n")
"""


def test_a_cache_that_cannot_be_written_is_a_line(tmp_path):
    (tmp_path / "file").touch()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = os.environ | {"MEBP_CACHE": str(tmp_path / "file" / "cache"), "TMPDIR": str(temporary)}
    run = subprocess.run([sys.executable, "-c", MAKE], capture_output=True, text=True, env=environment, check=True)
    path, kept, line = run.stdout.splitlines()
    beside = Path(path).parents[1]
    assert kept == "False" and beside.parent == temporary
    assert line == (
        f"{tmp_path / 'file' / 'cache'}: cannot be written (Not a directory), so what is made lies in {beside} and "
        "is gone when this process ends; MEBP_CACHE names another folder"
    )
    assert not list(temporary.iterdir())


def test_what_is_there_is_found_in_a_cache_that_cannot_be_written(folder, monkeypatch):
    Cache(pytest.fail).keep("kind/one", write)
    monkeypatch.setattr(tempfile, "TemporaryFile", pytest.fail)
    assert Cache(pytest.fail).keep("kind/one", pytest.fail)[1]
