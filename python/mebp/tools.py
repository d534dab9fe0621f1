# SPDX-License-Identifier: Apache-2.0
"""Where the compiled tools are, how an installed package runs them, and where they cache."""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

from mebp.errors import Error

_PACKAGED = Path(__file__).resolve().parent / "bin"


def find_tool(name: str) -> str:
    """The path of `mebpc` or `mebp-run`: in the folder MEBP_TOOLS, in the package, beside this interpreter, in the
    checkout's build, on PATH."""
    named = [os.environ["MEBP_TOOLS"]] if "MEBP_TOOLS" in os.environ else []
    checkout = _PACKAGED.parents[2]
    for folder in [*named, _PACKAGED, Path(sys.executable).parent, checkout / "build" / "bin"]:
        found = shutil.which(name, path=str(folder))
        if found:
            return found
    found = shutil.which(name)
    if not found:
        raise Error(f"{name} is neither beside this Python nor on PATH; build it with make")
    return found


def cache_folder() -> Path:
    """Where things are kept that can be made anew: $MEBP_CACHE, or ~/.cache/mebp. mebpc looks there, too."""
    return Path(os.environ.get("MEBP_CACHE") or Path.home() / ".cache" / "mebp")


def run_mebpc() -> NoReturn:
    """The command `mebpc` of an installed package."""
    _become("mebpc")


def run_mebp_run() -> NoReturn:
    """The command `mebp-run` of an installed package."""
    _become("mebp-run")


def _become(name: str) -> NoReturn:
    # Nothing but the package's own: what is beside the interpreter is this command itself.
    os.execv(_PACKAGED / name, [name, *sys.argv[1:]])
