# SPDX-License-Identifier: Apache-2.0
"""What scripts/check_wheel.py refuses. That it takes a good wheel is a step of `make wheel`."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def lines_about(wheel: Path) -> list[str]:
    command = [sys.executable, ROOT / "scripts" / "check_wheel.py", wheel]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    return [line.removeprefix(f"check_wheel: {wheel.name}: ") for line in done.stderr.splitlines()]


def test_a_wheel_that_others_cannot_install_is_refused_line_by_line(tmp_path: Path) -> None:
    wheel = tmp_path / "mebp-1-cp312-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as content:
        content.writestr("mebp/bin/mebpc", "#!/bin/sh\necho no such library >&2\nexit 127\n")
        content.writestr("mebp/notes.txt", f"built in {ROOT}/build")
        for package in ("libmlir", "libprotobuf", "nlohmann-json", "libcli11", "nanobind"):
            content.writestr(f"mebp.dist-info/licenses/linked/{package}.txt", "")

    assert lines_about(wheel) == [
        "has no manylinux tag; run auditwheel repair",
        "has 0 extensions instead of one",
        "has no libmebp_mlx.so",
        "lacks the licence of libhwy",
        "lacks its own LICENSE",
        "lacks mebp/py.typed, which lets type checkers read signatures",
        "lacks mebp/judging/general.jsonl, which mebp judge measures forgetting on",
        f"mebp/notes.txt names {ROOT}, a folder of the machine that built it",
        "mebpc does not start: no such library",
        "has no mebp-run",
    ]


def test_what_an_installer_would_write_elsewhere_or_for_all(tmp_path: Path) -> None:
    wheel = tmp_path / "mebp-1-cp312-abi3-manylinux_2_28_x86_64.whl"
    entries = {
        "mebp/../../above.py": 0o100644,
        "/etc/mebp.py": 0o100644,
        "mebp/shared.py": 0o100666,
        "mebp/bin/tool": 0o104755,
        "mebp/link": 0o120777,
        "mebp/good.py": 0o100644,
        "mebp/folder/": 0o040755,
    }
    with zipfile.ZipFile(wheel, "w") as content:
        for name, mode in entries.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            content.writestr(entry, "")

    assert lines_about(wheel)[:6] == [
        "mebp/../../above.py leads out of the folder that it is installed in",
        "/etc/mebp.py leads out of the folder that it is installed in",
        "mebp/shared.py has the mode 666, which gives others too much",
        "mebp/bin/tool has the mode 4755, which gives others too much",
        "mebp/link is neither a file nor a folder",
        "mebp/link has the mode 777, which gives others too much",
    ]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_what_the_loader_would_do_for_a_stranger(tmp_path: Path) -> None:
    (tmp_path / "code.c").write_text("static int value; int *place = &value; int function(void) { return *place; }\n")
    odd = {
        "stack.so": (
            ["-shared", "-fPIC", "-z", "execstack"],
            "has a stack that can be run; link it with -z noexecstack",
        ),
        "relro.so": (
            ["-shared", "-fPIC", "-z", "norelro"],
            "keeps what the loader has found writable; link it with -z relro",
        ),
        "writable.so": (["-shared", "-fPIC", "-nostdlib", "-Wl,-N"], "has memory that can be written and run"),
        "fixed": (
            ["-no-pie", "-nostartfiles", "-Wl,-e,function"],
            "is loaded at the same place each time; link it with -pie",
        ),
        "far.so": (["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN/../../x"], "looks for libraries in $ORIGIN/../../x"),
        "down.so": (["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN/x/../../.."], "looks for libraries in $ORIGIN/x/../../.."),
        "here.so": (["-shared", "-fPIC", "-Wl,-rpath,.:$ORIGIN/x"], "looks for libraries in ."),
        "empty.so": (["-shared", "-fPIC", "-Wl,-rpath,:$ORIGIN/x"], "looks for libraries in the current folder"),
        "beside.so": (["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN/../mlx/lib:$ORIGIN"], None),
    }
    wheel = tmp_path / "mebp-1-cp312-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as content:
        for name, (options, _) in odd.items():
            subprocess.run(["cc", "-o", tmp_path / name, tmp_path / "code.c", *options], check=True)
            content.write(tmp_path / name, f"mebp/{name}")
    lines = lines_about(wheel)
    for name, (_, problem) in odd.items():
        about = [line.removeprefix(f"{name} ") for line in lines if line.startswith(f"{name} ")]
        assert (problem in about) if problem else not about, (name, about)
