# SPDX-License-Identifier: Apache-2.0
"""The families of kernels that this machine's CPU has."""

import os
import re
import subprocess
import sys
from pathlib import Path

from support.commands import TIMEOUT

NO_SUCH = re.compile(r"MEBP_KERNELS=avx1024: this CPU has ((?:\w+, )+reference); name one of them or unset it\n")


def python(code: str, *arguments: object, kernels: str) -> subprocess.CompletedProcess:
    """Runs code in a process of its own, with the kernels that are named."""
    environment = os.environ | {"MEBP_KERNELS": kernels}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=environment)


def kernel_families(bundle: Path) -> list[str]:
    """What MEBP_KERNELS may name on this machine, the best first."""
    refused = python("import sys, mebp; mebp.Session(sys.argv[1])", bundle, kernels="avx1024")
    return NO_SUCH.search(refused.stderr)[1].split(", ")
