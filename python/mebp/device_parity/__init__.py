# SPDX-License-Identifier: Apache-2.0
"""The same step on several devices, side by side.

measure     the step on one device, in a process of its own
comparison  how far two devices are apart, and how far they may be
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mebp.device_parity.comparison import DeviceStep, Parity
from mebp.errors import Error
from mebp.files import user_path
from mebp.inspect import inspect
from mebp.numbers import checked, whole_number
from mebp.tools import python_module

__all__ = ["parity"]


@checked
def parity(
    bundle: str | os.PathLike[str],
    devices: Sequence[str] = ("cpu", "mlx"),
    *,
    adapter: str | os.PathLike[str] | None = None,
    seq_len: int | None = None,
    threads: int | None = None,
) -> Parity:
    """Takes one training step of one random batch on each device, each in a process of its own, and compares them.

    devices: as mebp.Session has them; the others are compared with the first.
    adapter: a PEFT folder; None for the bundle's own, whose B, which is zero, becomes random.
    seq_len: tokens of a row; None for as many as the bundle was compiled for.
    threads: CPU threads; None for all.

    Returns a Parity; `agrees` says whether all are close enough, `beyond` what is not. Raises mebp.Error where a device
    is not there or an argument is invalid.
    """
    bundle = user_path(bundle)
    if len(devices) < 2:
        raise Error(f"--devices {','.join(devices)}: give two or more, such as cpu,mlx")
    if doubled := next((name for name in devices if list(devices).count(name) > 1), None):
        raise Error(f"--devices {','.join(devices)}: names {doubled} twice; give each once")
    model = inspect(bundle)["model"]
    sequence = model["sequence"] if seq_len is None else whole_number("--seq-len", seq_len, at_least=2)
    task = {
        "bundle": os.fspath(bundle),
        "adapter": os.fspath(user_path(adapter)) if adapter else None,
        "sequence": sequence,
        "threads": threads,
    }
    with tempfile.TemporaryDirectory(prefix="mebp-parity-") as folder:
        steps = [_measure(name, task, Path(folder)) for name in devices]
    return Parity(model["activation"], steps)


def _measure(device: str, task: dict, folder: Path) -> DeviceStep:
    gradients = folder / f"{device}.npz"
    given = json.dumps({**task, "device": device, "gradients": os.fspath(gradients)})
    done = subprocess.run(python_module("mebp.device_parity.measure", given), capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"the process ended with status {done.returncode}"]
        raise Error(f"{device}: {lines[-1].removeprefix('mebp: ')}")
    with np.load(gradients) as found:
        return DeviceStep(device, **json.loads(done.stdout), gradients={name: found[name] for name in found.files})
