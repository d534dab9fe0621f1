# SPDX-License-Identifier: Apache-2.0
"""Packages that mebp is compared with. scripts/setup.sh installs all of them, some in a folder of their own."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

FOLDER = Path(sys.prefix) / "judges"


@contextmanager
def reachable() -> Iterator[None]:
    """Packages of that folder can be imported; at other times peft would find bitsandbytes there, and warn."""
    sys.path.append(str(FOLDER))
    try:
        yield
    finally:
        sys.path.remove(str(FOLDER))


def judge(module: str) -> ModuleType:
    """The module, wherever scripts/setup.sh put it; the test ends where it is missing."""
    with reachable():
        try:
            return import_module(module)
        except ImportError as error:
            missing(f"{module} cannot be imported ({error})")


def missing(what: str) -> NoReturn:
    """Fails in `make test`, for nobody would see that nothing was compared; skips where a package is a choice."""
    if "MEBP_ALL_JUDGES" in os.environ:
        pytest.fail(f"{what}; scripts/setup.sh installs it")
    pytest.skip(what)
