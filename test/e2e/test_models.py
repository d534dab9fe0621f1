# SPDX-License-Identifier: Apache-2.0
"""The list of model types: each entry is what the command that makes the list finds, and mebp models prints them."""

import json
import os

import pytest
import transformers
from parts.models.attempt import attempt
from parts.models.configuration import known_types

from mebp.cli import main
from mebp.models import OUTCOMES, Models, ModelType, PublishedModel, read_type, tried_models
from support.draw import draw


def test_every_entry_says_what_came_of_it():
    models = tried_models()
    assert models.transformers == transformers.__version__, "run bench/models.py again"
    names = [each.name for each in models.types]
    assert names == sorted(set(names)) and set(names) <= set(known_types())
    for each in models.types:
        assert each.outcome in OUTCOMES, each
        if each.outcome == "exact":
            assert each.gradients > 0 and 0 < each.worst < 1e-4 and not each.reason, each
        else:
            assert each.reason and "\n" not in each.reason and "/tmp" not in each.reason, each


def test_a_type_is_exact_only_as_all_published_configurations_are():
    found = [each for each in tried_models().types if each.published]
    assert sum(len(each.published) for each in found) >= 25
    for each in found:
        for shape in each.published:
            assert shape.outcome in OUTCOMES and shape.source and (shape.outcome == "exact") != bool(shape.reason), (
                shape
            )
        assert each.outcome != "exact" or all(shape.outcome == "exact" for shape in each.published), each


def drawn() -> list[str]:
    """Ten names, others for each commit; MEBP_MODELS names them. `make soak` tries all."""
    if named := os.environ.get("MEBP_MODELS"):
        return named.split(";")
    return draw("models", [each.name for each in tried_models().types], 10)


def test_the_draw_is_said(show):
    show(f"model types that were tried; again: MEBP_MODELS='{';'.join(drawn())}' pytest test/e2e/test_models.py")


@pytest.mark.parametrize("name", drawn())
def test_an_entry_is_what_is_found(name):
    (kept,) = [each for each in tried_models().types if each.name == name]
    found = attempt(name)
    for said in ("outcome", "reason", "gradients", "text", "layers", "published"):
        assert getattr(found, said) == getattr(kept, said), said


def test_the_command_prints_them(capsys):
    models = tried_models()
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == models.summary()
    assert len(lines) == 2 + len(models.types) and lines[1].split() == ["type", "outcome", "layers", "tried", "why"]
    assert any(line.split() == ["llama", "trained", "exactly"] for line in lines)
    assert any(line.split()[:4] == ["gemma2", "trained", "exactly", "sliding_attention,"] for line in lines)


def test_programs_read_them(capsys):
    assert main(["models", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["transformers"] == transformers.__version__ and found["known"] == len(known_types())
    assert [read_type(each) for each in found["types"]] == list(tried_models().types)


def test_an_entry_has_its_published_configurations():
    found = read_type(
        {"name": "a", "outcome": "exact", "published": [{"name": "A-1B", "source": "b", "outcome": "exact"}]}
    )
    assert found == ModelType("a", "exact", published=(PublishedModel("A-1B", "b", "exact"),))


def test_the_summary_counts():
    types = [ModelType("a", "exact"), ModelType("b", "refused", "why"), ModelType("c", "exact")]
    assert (
        Models("5.0", 3, types).summary() == "3 model types and tasks of transformers 5.0: 2 trained exactly, 1 refused"
    )
    assert Models("5.0", 9, types).summary().startswith("3 of 9 model types and tasks of transformers 5.0: 2 ")
