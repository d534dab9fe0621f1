# SPDX-License-Identifier: Apache-2.0
"""A Python in which TRL's trainers run: ours lacks `datasets`, and what that needs."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

NEEDED = "datasets>=4.7"


def python_with_trl(folder: Path) -> str:
    """Of a virtual environment in `folder`, made on first use, that sees all packages of this one and TRL beside them.

    Raises RuntimeError with pip's last line where that fails.
    """
    place = folder / "trl-environment"
    python = place / "bin" / "python"
    if not (place / "done").exists():
        _run([sys.executable, "-m", "venv", str(place)])
        found = _run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
        seen = [sysconfig.get_path("purelib"), str(Path(sys.prefix) / "judges")]
        (Path(found) / "mebp_bench.pth").write_text("\n".join(seen) + "\n")
        _run([str(python), "-m", "pip", "install", "-qq", NEEDED])
        (place / "done").touch()
    return str(python)


def offline() -> dict[str, str]:
    """Nothing that a trainer could ask a hub for is needed."""
    quiet = {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TQDM_DISABLE": "1"}
    return os.environ | quiet


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"{command[0]} failed"])[-1])
    return done.stdout
