# SPDX-License-Identifier: Apache-2.0
"""Training must not pay for what only exporting needs."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["mebp.session", "mebp.training.loop", "mebp.cli.main", "mebp.compiler"])
def test_training_does_not_load_torch(module):
    code = f"import sys, {module}; sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'matplotlib')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
