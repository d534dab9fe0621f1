# SPDX-License-Identifier: Apache-2.0
"""Scripts of this checkout, which lie in no package, as modules."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def load(path: str) -> ModuleType:
    """That of a path in the checkout, such as scripts/check_includes.py."""
    specification = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
