# SPDX-License-Identifier: Apache-2.0
"""Training must not pay for what only exporting needs."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["mebp.session", "mebp.training.loop", "mebp.cli.train", "mebp.compiler"])
def test_training_does_not_load_torch(module):
    heavy = "{'torch', 'transformers', 'matplotlib', 'jinja2', 'yaml'}"
    code = f"import sys, {module}; print({heavy} & sys.modules.keys())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "set()\n", run.stderr
