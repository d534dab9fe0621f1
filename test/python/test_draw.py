# SPDX-License-Identifier: Apache-2.0
"""Which tests `make test` leaves out."""

from pathlib import Path
from types import SimpleNamespace

from support import draw


class Item(SimpleNamespace):
    __hash__ = object.__hash__


def collected() -> list[Item]:
    root = Path(draw.__file__).parents[1]
    return [
        Item(path=root / folder / f"test_{file}.py", name=name)
        for folder in ("e2e", "python")
        for file, count in (("one", 1), ("some", 7), ("many", 40))
        for name in range(count)
    ]


def tried(monkeypatch, seed: str) -> list[tuple[str, int]]:
    monkeypatch.setattr(draw, "_seed", lambda: seed)
    items, left_out = collected(), []
    config = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items)))
    before = list(items)
    draw.pytest_collection_modifyitems(config, items)
    assert items == [item for item in before if item not in left_out]
    return [(f"{item.path.parent.name}/{item.path.stem}", item.name) for item in items]


def test_half_of_each_slow_file_is_tried_and_all_of_the_others(monkeypatch):
    monkeypatch.setenv("MEBP_DRAW_CASES", "1")
    files = [file for file, _ in tried(monkeypatch, "a")]
    counts = {file: files.count(file) for file in dict.fromkeys(files)}
    assert counts == {
        "e2e/test_one": 1, "e2e/test_some": 4, "e2e/test_many": 20,
        "python/test_one": 1, "python/test_some": 7, "python/test_many": 40,
    }  # fmt: skip


def test_each_commit_has_its_own(monkeypatch):
    monkeypatch.setenv("MEBP_DRAW_CASES", "1")
    assert tried(monkeypatch, "a") == tried(monkeypatch, "a") != tried(monkeypatch, "b")
    commits = [set(tried(monkeypatch, str(commit))) for commit in range(20)]
    assert len(set.union(*commits)) == len(collected())


def test_all_are_tried_where_nobody_asks_for_less(monkeypatch):
    monkeypatch.delenv("MEBP_DRAW_CASES", raising=False)
    assert len(tried(monkeypatch, "a")) == len(collected())
