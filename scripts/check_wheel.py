# SPDX-License-Identifier: Apache-2.0
"""Says what is in a wheel, and fails where it is not one that others can install: scripts/check_wheel.py WHEEL

Its name has a manylinux tag, its extension exports one symbol, whatever its programs load comes along or is on every
Linux, and the licences of what is linked in are there.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# PEP 600's: every Linux with a C library as new as the tag says has them.
_EVERYWHERE = re.compile(r"(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux-[\w-]+)\.so\.\d+")
_LINKED = ("libmlir", "libprotobuf", "libhwy", "libpthreadpool", "nlohmann-json", "libcli11", "nanobind")


def main(file: Path) -> int:
    with zipfile.ZipFile(file) as wheel, tempfile.TemporaryDirectory() as folder:
        print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB")
        for line in content(wheel):
            print(f"  {line}")
        wheel.extractall(folder)
        wrong = problems(file.name, Path(folder), set(wheel.namelist()))
    for each in wrong:
        print(f"check_wheel: {file.name}: {each}", file=sys.stderr)
    return 2 if wrong else 0


def content(wheel: zipfile.ZipFile) -> list[str]:
    """What is compiled by its name, the rest by its folder, the largest first."""
    sizes: dict[str, tuple[int, int]] = {}
    for entry in wheel.infolist():
        folder = entry.filename.split("/")[0]
        name = entry.filename if is_compiled(wheel.read(entry)) else f"{folder}/ (other files)"
        packed, unpacked = sizes.get(name, (0, 0))
        sizes[name] = packed + entry.compress_size, unpacked + entry.file_size
    return [
        f"{packed / 1e6:6.2f} MB packed {unpacked / 1e6:7.2f} MB  {name}"
        for name, (packed, unpacked) in sorted(sizes.items(), key=lambda item: -item[1][0])
    ]


def problems(name: str, folder: Path, names: set[str]) -> list[str]:
    compiled = [
        folder / each for each in names if (folder / each).is_file() and is_compiled((folder / each).read_bytes())
    ]
    brought = {path.name for path in compiled}
    wrong = [] if "manylinux" in name else ["has no manylinux tag; run auditwheel repair"]
    for path in compiled:
        missing = [each for each in needed(path) if each not in brought and not _EVERYWHERE.fullmatch(each)]
        wrong += [f"{path.name} needs {each}, which does not come along" for each in missing]
    extensions = [path for path in compiled if path.name.startswith("_runtime")]
    wrong += [] if len(extensions) == 1 else [f"has {len(extensions)} extensions instead of one"]
    for path in extensions:
        if exported(path) != ["PyInit__runtime"]:
            wrong.append(f"{path.name} exports {len(exported(path))} symbols instead of PyInit__runtime alone")
    licences = [each.split("/licenses/")[1] for each in names if "/licenses/" in each]
    wrong += [f"lacks the licence of {each}" for each in _LINKED if not any(each in text for text in licences)]
    return wrong + ([] if "LICENSE" in licences else ["lacks its own LICENSE"])


def is_compiled(content: bytes) -> bool:
    return content.startswith(b"\x7fELF")


def needed(path: Path) -> list[str]:
    return re.findall(r"NEEDED.*\[(.+)\]", _run("readelf", "-d", path))


def exported(path: Path) -> list[str]:
    return [line.split()[-1] for line in _run("nm", "-D", "--defined-only", path).splitlines()]


def _run(*command: object) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
