# SPDX-License-Identifier: Apache-2.0
"""Where the compiled tools are."""

import os
import shutil
import sys
from pathlib import Path

from mebp.errors import Error


def find_tool(name: str) -> str:
    """The path of `mebpc` or `mebp-run`: in the folder MEBP_TOOLS, beside this interpreter, in the package, in the
    checkout's build, on PATH."""
    package = Path(__file__).resolve().parent
    named = [os.environ["MEBP_TOOLS"]] if "MEBP_TOOLS" in os.environ else []
    for folder in [*named, Path(sys.executable).parent, package / "bin", package.parent.parent / "build" / "bin"]:
        found = shutil.which(name, path=str(folder))
        if found:
            return found
    found = shutil.which(name)
    if not found:
        raise Error(f"{name} is neither beside this Python nor on PATH; build it with make")
    return found
