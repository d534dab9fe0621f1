# SPDX-License-Identifier: Apache-2.0
"""Nobody pays for what they do not use: an import takes what it needs, and no more."""

import subprocess
import sys

import pytest

_EXPORTING = {"torch", "transformers", "matplotlib", "jinja2", "yaml"}
_TRAINING = {"numpy", "rich", "tokenizers", "mebp._runtime", "importlib.metadata"}
_NEEDED_TO_TRAIN = [
    "mebp.session",
    "mebp.training.loop",
    "mebp.cli.train",
    "mebp.compiler",
    "mebp.data.preferences",
    "mebp.data.prompts",
    "mebp.rewards",
    "mebp.objectives.pairs",
    "mebp.objectives.groups",
    "mebp.objectives.ppo",
]


def loaded(statement: str, modules: set[str]) -> set[str]:
    code = f"import sys; {statement}; print(*({modules} & sys.modules.keys()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


@pytest.mark.parametrize("module", _NEEDED_TO_TRAIN)
def test_training_does_not_load_torch(module):
    assert not loaded(f"import {module}", _EXPORTING)


@pytest.mark.parametrize("module", ["mebp", "mebp.cli.main", "mebp.cli.models"])
def test_a_plain_import_loads_no_library(module):
    assert not loaded(f"import {module}", _EXPORTING | _TRAINING)


def test_a_name_is_imported_when_it_is_used():
    assert loaded("import mebp; mebp.Session", {"numpy"}) == {"numpy"}
