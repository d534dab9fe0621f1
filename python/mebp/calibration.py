# SPDX-License-Identifier: Apache-2.0
"""How fast this machine's kernels are, for the compiler's cost model."""

import json
from pathlib import Path

from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.files import make_writable_parent, replaced_file, user_path
from mebp.outputs import RATES, check_output
from mebp.tools import cache_folder

_ADVICE = "choose another with -o"


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
    output = user_path(output) if output else default_file()
    if output.is_dir():
        raise Error(f"{output}: is a folder; give a file")
    check_output("-o", output, RATES, {})
    make_writable_parent(output, _ADVICE, f"{output}: its folder")
    text = load_runtime().calibrate(threads or 0, quick)
    with replaced_file(output, _ADVICE) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8")
    return json.loads(text)
