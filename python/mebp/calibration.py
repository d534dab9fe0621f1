# SPDX-License-Identifier: Apache-2.0
"""How fast this machine's kernels are, for the compiler's cost model."""

import json
import os
import tempfile
from pathlib import Path

from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.tools import cache_folder


def default_file() -> Path:
    """Where mebpc looks for rates that it is not told of."""
    return cache_folder() / "rates.json"


def calibrate(output: Path | None = None, *, threads: int | None = None, quick: bool = False) -> dict:
    """Times the kernels for about twenty seconds, and writes what was found to `output`: whole, or not at all.

    output: None for the file that mebpc reads by itself.
    threads: kernels are timed on one thread and on this many; None for as many as the process may run on.
    quick: a second of timing, to try the way; what is found predicts little.

    Returns what was written: "processor", "threads", "terms", and "nanoseconds", for each name a rate of each term on
    each number of threads. Raises mebp.Error where `output` cannot be written.
    """
    output = output or default_file()
    _check_writable(output)
    text = load_runtime().calibrate(threads or 0, quick)
    with tempfile.NamedTemporaryFile("w", dir=output.parent, prefix=f".{output.name}-", delete=False) as scratch:
        scratch.write(text + "\n")
    Path(scratch.name).chmod(0o644)
    os.replace(scratch.name, output)
    return json.loads(text)


def _check_writable(output: Path) -> None:
    if output.is_dir():
        raise Error(f"{output}: is a folder; name a file")
    try:
        output.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Error(f"{output}: its folder cannot be made ({error.strerror}); choose another with -o") from error
    if not os.access(output.absolute().parent, os.W_OK):
        raise Error(f"{output}: its folder cannot be written; choose another with -o")
