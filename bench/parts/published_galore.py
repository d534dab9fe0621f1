# SPDX-License-Identifier: Apache-2.0
"""galore-torch, the published code, file by file: as a whole it needs bitsandbytes."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_PROJECTOR = "galore_torch_galore_projector"


def load_adamw() -> ModuleType:
    """Its AdamW. Raises ImportError where galore-torch is not installed."""
    sys.modules[_PROJECTOR] = _load("galore_projector")
    return _load("adamw")


def _load(name: str) -> ModuleType:
    package = importlib.util.find_spec("galore_torch")
    if package is None:
        raise ImportError("galore-torch is not installed")
    path = Path(package.submodule_search_locations[0]) / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"galore_torch_{name}", path)
    module = importlib.util.module_from_spec(spec)
    source = path.read_text(encoding="utf-8").replace("from .galore_projector", f"from {_PROJECTOR}")
    exec(compile(source, path, "exec"), module.__dict__)
    return module
