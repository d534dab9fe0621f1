# SPDX-License-Identifier: Apache-2.0
"""How fast a device's kernels are here, for the compiler's cost model."""

import json
from pathlib import Path

from mebp.cache import make_cache_folder
from mebp.errors import Error
from mebp.extension import load_runtime
from mebp.files import make_writable_parent, replaced_file, user_path
from mebp.outputs import RATES, check_output
from mebp.tools import cache_folder

_ADVICE = "choose another with -o"


def default_file(device: str = "cpu") -> Path:
    """Where mebpc looks for a device's rates when it is not told of a file."""
    return cache_folder() / ("rates.json" if device == "cpu" else f"rates_{device}.json")


def calibrate(
    output: Path | None = None, *, device: str = "cpu", threads: int | None = None, quick: bool = False
) -> dict:
    """Times a device's kernels for about twenty seconds, and writes what was found to `output`: whole, or not at all.

    output: None for the file that mebpc reads by itself, which each device has for itself.
    device: "cpu", "mlx" or "mlx-cpu"; a slow one takes some minutes. What it has no kernel for is left out.
    threads: the CPU's kernels are timed on one thread and on this many; None for as many as the process may run on.
    quick: few calls, to try the way; what is found predicts little.

    Returns what was written: "device", "description", "processor", "threads", "terms", and "nanoseconds", for each name
    a rate of each term on each number of threads. Raises mebp.Error where the device is not there or computes wrong,
    and where `output` cannot be written.
    """
    runtime = load_runtime()
    runtime.check_device(device)
    if output:
        output = user_path(output)
    else:
        make_cache_folder()
        output = default_file(device)
    if output.is_dir():
        raise Error(f"{output}: is a folder; give a file")
    check_output("-o", output, RATES, {})
    make_writable_parent(output, _ADVICE, f"{output}: its folder")
    text = runtime.calibrate(device, threads or 0, quick)
    with replaced_file(output, _ADVICE) as unfinished:
        unfinished.write_text(text + "\n", encoding="utf-8")
    return json.loads(text)
