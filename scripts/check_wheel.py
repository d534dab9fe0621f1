# SPDX-License-Identifier: Apache-2.0
"""Says what is in a wheel, and fails where it is not one that others can install: scripts/check_wheel.py WHEEL

Its name has a manylinux tag, its extension and its MLX backend export one symbol each, whatever its programs load comes
along or is on every Linux, but for MLX, which an extra brings. They start without any environment, no file names a
folder of the machine that built it, and the licences of what is linked in are there. Nothing leads out of the folder it
is unpacked into, no file is anybody's to write or runs as somebody else, and no memory can be both written and run.
"""

import re
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# PEP 600's: every Linux with a C library as new as the tag says has them.
_EVERYWHERE = re.compile(r"(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux-[\w-]+)\.so\.\d+")
# Whose code is in the compiled files. What is put beside them is asked for by its own name.
_LINKED = ("libmlir", "libprotobuf", "libhwy", "nlohmann-json", "libcli11", "nanobind")
_BACKEND, _MLX, _MLX_FOLDER = "libmebp_mlx.so", "libmlx.so", "$ORIGIN/../mlx/lib"
_GENERAL = "mebp/judging/general.jsonl"
_PROGRAMS = ("mebpc", "mebp-run")
_BUILDERS_FOLDERS = (Path(__file__).resolve().parents[1], Path.home())


def main(file: Path) -> int:
    with zipfile.ZipFile(file) as wheel, tempfile.TemporaryDirectory() as folder:
        print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB")
        for line in content(wheel):
            print(f"  {line}")
        wheel.extractall(folder)
        wrong = entry_problems(wheel.infolist())
        wrong += problems(file.name, Path(folder), set(wheel.namelist()))
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


def entry_problems(entries: list[zipfile.ZipInfo]) -> list[str]:
    """What an installer would write elsewhere, or with a mode that is too much."""
    wrong = []
    for entry in entries:
        parts, mode = entry.filename.split("/"), entry.external_attr >> 16
        if ".." in parts or not parts[0] or "\\" in entry.filename:
            wrong.append(f"{entry.filename} leads out of the folder that it is installed in")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            wrong.append(f"{entry.filename} is neither a file nor a folder")
        if mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH):
            wrong.append(f"{entry.filename} has the mode {stat.S_IMODE(mode):o}, which gives others too much")
    return wrong


def problems(name: str, folder: Path, names: set[str]) -> list[str]:
    files = [folder / each for each in sorted(names) if (folder / each).is_file()]
    compiled = [path for path in files if is_compiled(path.read_bytes())]
    wrong = [] if "manylinux" in name else ["has no manylinux tag; run auditwheel repair"]
    wrong += loading_problems(compiled, folder) + memory_problems(compiled)
    wrong += extension_problems(compiled) + backend_problems(compiled)
    wrong += licence_problems(compiled, names)
    wrong += [] if "mebp/py.typed" in names else ["lacks mebp/py.typed, which lets type checkers read signatures"]
    wrong += [] if _GENERAL in names else [f"lacks {_GENERAL}, which mebp judge measures forgetting on"]
    for path in files:
        named = [each for each in _BUILDERS_FOLDERS if f"{each}/".encode() in path.read_bytes()]
        if named:
            wrong.append(f"{path.relative_to(folder)} names {named[0]}, a folder of the machine that built it")
    return wrong + [line for program in _PROGRAMS for line in program_problems(folder / "mebp" / "bin" / program)]


def loading_problems(compiled: list[Path], root: Path) -> list[str]:
    """What the system's loader would not find for them, or would look for in a folder of one machine."""
    brought = {path.name for path in compiled}
    wrong = []
    for path in compiled:
        others = brought | ({_MLX} if path.name == _BACKEND else set())
        missing = [each for each in needed(path) if each not in others and not _EVERYWHERE.fullmatch(each)]
        wrong += [f"{path.name} needs {each}, which does not come along" for each in missing]
        depth = len(path.relative_to(root).parts) - 1
        elsewhere = [each for each in searched(path) if not _is_in_the_environment(each, depth)]
        wrong += [f"{path.name} looks for libraries in {each or 'the current folder'}" for each in elsewhere]
    return wrong


def _is_in_the_environment(searched: str, depth: int) -> bool:
    """Whether a folder that the loader searches for a file so many folders deep is among the environment's packages."""
    first, *parts = searched.split("/")
    for part in parts:
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return False
    return first == "$ORIGIN"


def memory_problems(compiled: list[Path]) -> list[str]:
    """What makes a mistake easier to use: memory that can be written and run, and addresses that are known."""
    wrong = []
    for path in compiled:
        segments = _run("readelf", "-lW", path)
        if "DYN" not in _run("readelf", "-hW", path):
            wrong.append(f"{path.name} is loaded at the same place each time; link it with -pie")
        if not re.search(r"GNU_STACK .* RW +0x", segments):
            wrong.append(f"{path.name} has a stack that can be run; link it with -z noexecstack")
        if re.search(r"LOAD .* (RWE|WE) +0x", segments):
            wrong.append(f"{path.name} has memory that can be written and run")
        if "GNU_RELRO" not in segments:
            wrong.append(f"{path.name} keeps what the loader has found writable; link it with -z relro")
        if re.search(r"TEXTREL", _run("readelf", "-d", path)):
            wrong.append(f"{path.name} has its code changed as it is loaded; compile it with -fPIC")
    return wrong


def extension_problems(compiled: list[Path]) -> list[str]:
    extensions = [path for path in compiled if path.name.startswith("_runtime")]
    if len(extensions) != 1:
        return [f"has {len(extensions)} extensions instead of one"]
    names = exported(extensions[0])
    print(f"  symbols that {extensions[0].name} exports: {len(names)}")
    if names != ["PyInit__runtime"]:
        return [f"{extensions[0].name} exports {len(names)} symbols instead of PyInit__runtime alone"]
    return []


def backend_problems(compiled: list[Path]) -> list[str]:
    """It finds MLX where pip puts it, beside mebp; MLX itself has to stay out, since every device has another one."""
    wrong = [f"brings {path.name}, which an extra has to bring" for path in compiled if path.name.startswith("libmlx")]
    backends = [path for path in compiled if path.name == _BACKEND]
    if not backends:
        return [*wrong, f"has no {_BACKEND}"]
    if exported(backends[0]) != ["mebp_backend_library"]:
        wrong.append(f"{_BACKEND} exports {len(exported(backends[0]))} symbols instead of mebp_backend_library alone")
    if _MLX_FOLDER not in searched(backends[0]):
        wrong.append(f"{_BACKEND} does not look for MLX in {_MLX_FOLDER}")
    return wrong


def program_problems(path: Path) -> list[str]:
    if not path.exists():
        return [f"has no {path.name}"]
    path.chmod(0o755)  # as pip does; zipfile forgets it
    started = subprocess.run([path, "--help"], capture_output=True, text=True, env={})
    return [f"{path.name} does not start: {started.stderr.strip()}"] if started.returncode else []


def licence_problems(compiled: list[Path], names: set[str]) -> list[str]:
    licences = [each.split("/licenses/")[1] for each in names if "/licenses/" in each]
    # auditwheel calls what it takes along libhwy-1a2b3c4d.so.1, libprotobuf-lite-1a2b3c4d.so.32.
    brought = [path.name.split("-")[0] for path in compiled if path.parent.name.endswith(".libs")]
    lacking = [each for each in sorted({*_LINKED, *brought}) if not any(each in text for text in licences)]
    wrong = [f"lacks the licence of {each}" for each in lacking]
    return wrong + ([] if "LICENSE" in licences else ["lacks its own LICENSE"])


def is_compiled(content: bytes) -> bool:
    return content.startswith(b"\x7fELF")


def needed(path: Path) -> list[str]:
    return re.findall(r"NEEDED.*\[(.+)\]", _run("readelf", "-d", path))


def searched(path: Path) -> list[str]:
    found = re.findall(r"(?:RPATH|RUNPATH).*\[(.*)\]", _run("readelf", "-d", path))
    return [folder for each in found for folder in each.split(":")]


def exported(path: Path) -> list[str]:
    return [line.split()[-1] for line in _run("nm", "-D", "--defined-only", path).splitlines()]


def _run(*command: object) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
