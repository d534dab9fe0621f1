# SPDX-License-Identifier: Apache-2.0
"""Nobody pays for what they do not use: an import takes what it needs, and no more."""

import subprocess
import sys
from pathlib import Path

import pytest

import mebp

_EXPORTING = {"torch", "transformers", "matplotlib", "jinja2", "yaml"}
_TRAINING = {"numpy", "rich", "tokenizers", "mebp._runtime", "importlib.metadata"}
_NEEDED_TO_TRAIN = [
    "mebp.session",
    "mebp.training.loop",
    "mebp.cli.train",
    "mebp.compiler",
    *(
        f"mebp.{folder}.{path.stem}"
        for folder in ("data", "objectives", "rewards", "training/objectives")
        for path in (Path(mebp.__file__).parent / folder).glob("[!_]*.py")
        if path.stem != "template_worker"  # a program
    ),
]


def loaded(statement: str, modules: set[str]) -> set[str]:
    code = f"import sys; {statement}; print(*({modules} & sys.modules.keys()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def test_training_does_not_load_torch():
    assert not loaded(f"import {', '.join(_NEEDED_TO_TRAIN).replace('/', '.')}", _EXPORTING)


@pytest.mark.parametrize("module", ["mebp", "mebp.cli.main", "mebp.cli.models"])
def test_a_plain_import_loads_no_library(module):
    assert not loaded(f"import {module}", _EXPORTING | _TRAINING)


def test_a_name_is_imported_when_it_is_used():
    assert loaded("import mebp; mebp.Session", {"numpy"}) == {"numpy"}
