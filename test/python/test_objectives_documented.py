# SPDX-License-Identifier: Apache-2.0
"""The pages of objectives have every objective, every loss type and every option with its default, and their program
runs."""

import dataclasses
import re
from pathlib import Path

import pytest

from mebp.objective_traits import SFT, objectives
from mebp.objectives import groups, pair_losses
from mebp.training.objective_options import PARTS
from mebp.training.objectives import OBJECTIVES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "\n".join((DOCS / f"{name}.md").read_text() for name in ("objectives", "preferences", "rewards"))


OF_FORMULAS = [part for parts in PARTS.values() for part in parts if part.__module__.startswith("mebp.objectives.")]


def test_each_has_a_class_options_and_its_place_in_training():
    names = list(objectives())
    assert names[0] == SFT and names == list(OBJECTIVES) and names[1:] == list(PARTS)
    page = (DOCS / "objectives.md").read_text()
    for name in names[1:]:
        assert re.search(rf"^- `{name}` ", page, re.MULTILINE), name


@pytest.mark.parametrize("options", OF_FORMULAS)
def test_it_has_every_option_with_its_default(options):
    _, table = PAGE.split(f"| {options.__name__} | default | means |\n| --- | --- | --- |\n")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table.split("\n\n")[0], re.MULTILINE)
    assert rows == [(field.name, str(field.default)) for field in dataclasses.fields(options)]


@pytest.mark.parametrize(("section", "types"), [("DPO", pair_losses.LOSS_TYPES), ("GRPO", groups.LOSS_TYPES)])
def test_it_has_every_loss_type(section, types):
    table = re.search(rf"## {section}\n.*?\| loss_type \|.*?\n\n", PAGE, re.DOTALL)[0]
    rows = re.findall(r"^\| `(\w+)`( \(default\))? \|", table, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(types)
    assert sum(bool(default) for _, default in rows) == 1


def test_its_programs_run(capsys):
    for program in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(program, {})
    assert len(capsys.readouterr().out.splitlines()) == 2
