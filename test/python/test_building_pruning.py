# SPDX-License-Identifier: Apache-2.0
"""mebp cache: what the cache holds, and what goes when it holds too much."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mebp.building.pruning import cache_limit, keep_within, list_entries, prune
from mebp.cache import Cache, hold, hold_entry_of
from mebp.cli import main
from mebp.errors import Error
from support.commands import refusal_in_process

DAY = 86400


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MEBP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MEBP_CACHE_LIMIT", raising=False)
    return tmp_path / "cache"


def entry(path: Path, size: int, days: float) -> Path:
    """One that was last used so many days ago."""
    path.mkdir(parents=True, mode=0o700)
    (path / "content").write_bytes(bytes(size))
    os.utime(path, (time.time() - days * DAY,) * 2)
    return path


@pytest.fixture
def three(folder) -> list[Path]:
    """The second was not used for the longest time."""
    return [entry(folder / "bundles" / "new", 1000, 1), entry(folder / "exports" / "old", 2000, 9),
            entry(folder / "tokens" / "middle", 3000, 5)]  # fmt: skip


def test_what_is_there(three, folder, capsys):
    (folder / "bundles" / ".writing-x").mkdir()
    (folder / "adapters.json").write_text("{}")
    found, total = list_entries()
    assert [each.name for each in found] == ["exports/old", "tokens/middle", "bundles/new"]
    assert total == 6000 and [each.bytes for each in found] == [2000, 3000, 1000]
    assert main(["cache"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{folder}: 0.0 MB, after a build at most 20 GB (MEBP_CACHE_LIMIT)"
    assert lines[2].split() == ["exports/old", "0.0", "9", "days", "ago"]
    assert main(["cache", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == 6000 and told["limit"] == 20_000_000_000 and told["removed"] == []
    assert told["entries"][0].keys() == {"name", "path", "bytes", "used", "held"}


def test_an_empty_cache(folder, capsys):
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == (
        f"{folder}: 0.0 MB, after a build at most 20 GB (MEBP_CACHE_LIMIT); it holds nothing\n"
    )
    assert not folder.exists()


@pytest.mark.parametrize(("size", "left"), [("6000B", 3), ("5999B", 2), ("1000B", 1), ("0", 0)])
def test_the_least_recently_used_go(three, folder, capsys, size, left):
    (folder / "adapters.json").write_text("{}")
    assert main(["cache", "--prune", size]) == 0
    gone = [three[1], three[2], three[0]][: 3 - left]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[: len(gone)]] == [str(path) for path in gone]
    assert [path for path in three if not path.exists()] == [path for path in three if path in gone]
    assert not list(folder.rglob(".*")) and (folder / "adapters.json").exists()


def test_what_somebody_uses_stays(three, folder):
    hold_entry_of(three[1] / "name.mebp")
    hold = "import sys, mebp.cache; mebp.cache.Cache(print).find(sys.argv[1]); print('held', flush=True); input()"
    command = [sys.executable, "-c", hold, "tokens/middle"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        assert {each.name: each.held for each in list_entries()[0]} == {
            "bundles/new": False, "exports/old": True, "tokens/middle": True}  # fmt: skip
        assert [each.path for each in prune(0)] == [three[0]] and not three[0].exists()
        process.communicate("\n")
    assert [each.path for each in prune(0)] == [three[2]]
    assert three[1].exists()


def test_use_counts(three, folder):
    """What is found was used now; an entry of the cache that went in between is made again."""
    cache = Cache(pytest.fail)
    assert cache.find("exports/old") == three[1]
    assert [each.name for each in list_entries()[0]][-1] == "exports/old"
    for path in three[1].iterdir():
        path.unlink()
    three[1].rmdir()
    assert cache.find("exports/old") is None and not hold(three[1])
    assert cache.keep("exports/old", lambda folder: None)[1] is False


def test_weights_that_are_linked(folder, tmp_path):
    """A file counts once, and not where a link outside of the cache keeps it."""
    first, second = entry(folder / "exports" / "a", 100, 2), entry(folder / "exports" / "b", 10, 1)
    os.link(first / "content", second / "same")
    (tmp_path / "model").write_bytes(bytes(5000))
    os.link(tmp_path / "model", first / "weights")
    for path, days in ((first, 2), (second, 1)):
        os.utime(path, (time.time() - days * DAY,) * 2)
    found, total = list_entries()
    assert total == 110 and [each.bytes for each in found] == [0, 10]
    prune(105)
    assert not first.exists() and not second.exists()
    assert (tmp_path / "model").stat().st_size == 5000


def test_the_limit(monkeypatch, three, folder):
    assert cache_limit() == 20_000_000_000
    for text, limit in (("0", 0), ("5GB", 5_000_000_000), ("1GiB", 1 << 30)):
        monkeypatch.setenv("MEBP_CACHE_LIMIT", text)
        assert cache_limit() == limit
    monkeypatch.setenv("MEBP_CACHE_LIMIT", "much")
    with pytest.raises(Error, match="^MEBP_CACHE_LIMIT much "):
        cache_limit()
    assert list(keep_within(5000)) == [
        f"{three[1]}: removed from the cache, last used 9 days ago, for MEBP_CACHE_LIMIT is 5e-06 GB"
    ]


def test_what_is_refused(three, folder, capsys):
    assert refusal_in_process(capsys, "cache", "--prune", "much").startswith("mebp: --prune much ")
    (folder / "bundles").chmod(0o777)
    assert "everybody may write to this folder of the cache" in refusal_in_process(capsys, "cache", "--prune", "0")
    assert all(path.exists() for path in three)


def test_what_a_killed_one_left_goes(three, folder):
    (folder / "exports" / ".removing-old").mkdir()
    prune(0)
    assert not list((folder / "exports").iterdir())


def test_a_link_is_not_followed(folder, tmp_path):
    outside = entry(tmp_path / "outside", 100, 1)
    (folder / "bundles").mkdir(parents=True, mode=0o700)
    (folder / "bundles" / "planted").symlink_to(outside)
    prune(0)
    assert (outside / "content").exists()
