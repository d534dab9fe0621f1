# SPDX-License-Identifier: Apache-2.0
"""What scripts/check_wheel.py refuses. That it takes a good wheel is a step of `make wheel`."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_wheel_that_others_cannot_install_is_refused_line_by_line(tmp_path: Path) -> None:
    wheel = tmp_path / "mebp-1-cp312-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as content:
        content.writestr("mebp/bin/mebpc", "#!/bin/sh\necho no such library >&2\nexit 127\n")
        content.writestr("mebp/notes.txt", f"built in {ROOT}/build")
        for package in ("libmlir", "libprotobuf", "nlohmann-json", "libcli11", "nanobind"):
            content.writestr(f"mebp.dist-info/licenses/linked/{package}.txt", "")

    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "check_wheel.py", wheel], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    lines = [line.removeprefix(f"check_wheel: {wheel.name}: ") for line in done.stderr.splitlines()]
    assert lines == [
        "has no manylinux tag; run auditwheel repair",
        "has 0 extensions instead of one",
        "has no libmebp_mlx.so",
        "lacks the licence of libhwy",
        "lacks its own LICENSE",
        f"mebp/notes.txt names {ROOT}, a folder of the machine that built it",
        "mebpc does not start: no such library",
        "has no mebp-run",
    ]
