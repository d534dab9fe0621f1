# SPDX-License-Identifier: Apache-2.0
"""What `make test` tries of what takes long: half of each file of test/e2e, another half for each commit, so that it
ends within its minutes. `MEBP_ALL_CASES=1 make test` tries all, and so does pytest where it is called by itself."""

import os
import random
import subprocess
from collections import defaultdict
from datetime import date
from functools import cache
from pathlib import Path

import pytest

_DRAWS = "MEBP_DRAW_CASES"  # scripts/test.sh sets it
_FOLDER = Path(__file__).resolve().parents[1] / "e2e"
_DRAW_THEMSELVES = {"test_models.py"}


@cache
def _seed() -> str:
    """The commit, or the day where there is no git: the same in all processes of a run."""
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=_FOLDER, capture_output=True, text=True)
    return git.stdout.strip() or str(date.today())


def draw(name: str, among: list, count: int) -> list:
    """In the order in which they are. `name`: another for each list, for else all have the same places drawn."""
    places = random.Random(f"{_seed()} {name}").sample(range(len(among)), count)
    return [among[place] for place in sorted(places)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _DRAWS not in os.environ:
        return
    files = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    kept = set()
    for path, tests in files.items():
        is_halved = path.parent == _FOLDER and path.name not in _DRAW_THEMSELVES
        kept.update(draw(path.name, tests, (len(tests) + 1) // 2) if is_halved else tests)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
