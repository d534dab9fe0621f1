# SPDX-License-Identifier: Apache-2.0
"""The peaks that a plan lists, beside those of sessions."""

from pathlib import Path

import mebp
from mebp.inspect import inspect


def other_peaks(bundle: Path) -> dict[str, int]:
    """Bytes by optimizer and use of the gradients."""
    return {peak["name"]: peak["bytes"] for peak in inspect(bundle)["plan"]["other_peaks"]}


def check_each_use(bundle: Path, optimizer: str, peaks: dict[str, int]) -> mebp.Session:
    """Whether a session with each use of the gradients needs what `peaks` says; the last of them."""
    uses = {
        "gradients applied at once": {"return_gradients": False},
        "clipped or returned": {"return_gradients": True},
        "accumulated": {"return_gradients": False, "accumulate": True},
    }
    for use, options in uses.items():
        session = mebp.Session(bundle, **options)
        assert session.plan["planned_peak_bytes"] == peaks[f"{optimizer}, {use}"], use
    return session
