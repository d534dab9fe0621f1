# SPDX-License-Identifier: Apache-2.0
"""Training must not pay for what only exporting needs."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["mebp.session", "mebp.training.loop", "mebp.cli.main", "mebp.compiler"])
def test_training_does_not_load_torch(module):
    code = f"import sys, {module}; print({{'torch', 'transformers', 'matplotlib', 'jinja2'}} & sys.modules.keys())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "set()\n", run.stderr
